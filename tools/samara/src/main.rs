//! The command line of Samara.

fn main() {
    std::process::exit(samara_cli::run());
}
