//! Misuse of the command line, in one line: what is wrong, and where to look.

use std::io::{self, Write};

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Parser};
use samara_tracer::tell::unless_closed;

use crate::outcome::complain;

/// Returns the parsed command line. Prints help or version when that was asked for; ends the
/// program with a line on standard error and exit code 2 when the arguments are wrong.
pub(crate) fn parse<C: Parser>() -> C {
    C::try_parse().unwrap_or_else(|error| {
        use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
        match error.kind() {
            DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand => {
                std::process::exit(show(&error))
            }
            _ => std::process::exit(complain(&one_line(&error.render().to_string()))),
        }
    })
}

/// The options of one subcommand. Those of all others are never described: that would take a good part of the time in which a program starts.
#[derive(Debug)]
pub(crate) struct Described<O>(pub(crate) O);

impl<O: Args> Args for Described<O> {
    fn augment_args(command: Command) -> Command {
        command.defer(described::<O>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(described::<O>)
    }
}

/// Returns a subcommand with its options. What it is for has been said; the options say of
/// themselves what they are for.
fn described<O: Args>(command: Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let long_about = command.get_long_about().cloned().unwrap_or_default();
    let described = O::augment_args(command);
    described.about(about).long_about(long_about)
}

impl<O: FromArgMatches> FromArgMatches for Described<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        O::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Prints help or version; the exit code.
fn show(error: &clap::Error) -> i32 {
    match unless_closed(error.print().and_then(|()| io::stdout().flush())) {
        Err(failed) => complain(&format!("standard output cannot be written: {failed}")),
        Ok(()) => error.exit_code(),
    }
}

/// Joins what clap says before its usage, tips included, into one line.
fn one_line(rendered: &str) -> String {
    let words = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty());
    let mut text = String::new();
    for line in words {
        if !text.is_empty() {
            text.push_str(if text.ends_with(':') { " " } else { "; " });
        }
        text.push_str(line.trim_start_matches("error: "));
    }
    text + " (see --help)"
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn what_clap_says_becomes_one_line() {
        let unexpected = "error: unexpected argument '--x' found\n\n  tip: try '--y'\n\nUsage: samara trace\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(unexpected),
            "unexpected argument '--x' found; tip: try '--y' (see --help)"
        );
        let missing = "error: the following required arguments were not provided:\n  <FILE>\n\nUsage: samara replay <FILE>\n";
        assert_eq!(
            one_line(missing),
            "the following required arguments were not provided: <FILE> (see --help)"
        );
    }
}
