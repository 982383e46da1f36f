//! Tests on other kernels: Debian's kernels run the oracle and traced programs, in QEMU with
//! software emulation.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::setup;

/// The kernels' versions, and the releases of Debian that have them.
const KERNELS: [(&str, &str); 2] = [("6.1", "bookworm"), ("6.12", "trixie")];
/// The seconds after which an emulated machine is stopped.
const TIMEOUT: &str = "7200";

/// The work of a guest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<'a> {
    /// Random calls in each suite.
    pub(crate) calls: u32,
    /// The number of random files that are executed.
    pub(crate) files: u32,
    /// The seed of the first history and of the files.
    pub(crate) seed: u32,
    /// Some of `programs`, `found`, `oracle`, `exec`, `callers`, separated by commas.
    pub(crate) parts: &'a str,
    /// A part of the names of the oracle's suites, or empty for all.
    pub(crate) suite: &'a str,
}

impl Work<'_> {
    /// Returns the part of the work whose results may differ with five levels of page tables. Only
    /// placement hints make Linux choose addresses above 47 bits.
    fn wide(self) -> Self {
        Work {
            parts: "programs,oracle",
            suite: "places",
            ..self
        }
    }
}

/// Boots each kernel, or the one named `only`.
pub(crate) fn run(shell: &Shell, only: Option<&str>, work: Work<'_>) -> Result<()> {
    setup::debian(shell, "qemu-system-x86_64", "qemu-system-x86")?;
    setup::debian(shell, "cpio", "cpio")?;
    setup::debian(shell, "busybox", "busybox-static")?;
    setup::multilib(shell)?;
    let folder = shell.current_dir().join("target/guests");
    shell.create_dir(&folder)?;
    let root = image(shell, &folder)?;
    for (version, suite) in KERNELS {
        if only.is_none_or(|only| only == version) {
            let place = folder.join(format!("linux-{version}"));
            let place = newest(shell, &place, version, suite)?;
            let kernel = image_in(shell, &place)
                .with_context(|| format!("no kernel is in {}", place.display()))?;
            let root = with_modules(shell, &place, &root)?;
            boot(shell, &kernel, &root, "la57=off", work)
                .with_context(|| format!("Linux {version} and the engine do not agree"))?;
            boot(shell, &kernel, &root, "la57=on", work.wide()).with_context(|| {
                format!("Linux {version} with addresses of 57 bits and the engine do not agree")
            })?;
        }
    }
    Ok(())
}

/// Builds the guests' root archive.
fn image(shell: &Shell, folder: &Path) -> Result<PathBuf> {
    cmd!(shell, "cargo build --locked -p samara").run()?;
    let built = cmd!(
        shell,
        "cargo test --locked -p samara-mm --features exec --test oracle --test exec --test one_range --no-run"
    )
    .read_stderr()?;
    let (here, root) = (shell.current_dir(), folder.join("root"));
    let test = |name: &str| {
        let source = format!("tests/{name}");
        let mut lines = built.lines().filter(|line| line.contains(&source));
        let path = lines.next()?.rsplit_once('(')?.1.split_once(')')?.0;
        Some(here.join(path))
    };
    let target = shell.var("CARGO_TARGET_DIR");
    let target = target.unwrap_or_else(|_| "target".to_owned());
    let samara = here.join(target).join("debug/samara");
    let oracle = test("oracle/main.rs").context("cargo does not say where the oracle is")?;
    let exec = test("exec/main.rs").context("cargo does not say where the test of exec is")?;
    let ranges = test("one_range.rs").context("cargo does not say where the test of ranges is")?;
    let programs = [&samara, &oracle, &exec, &ranges];
    cmd!(shell, "sh xtask/guests/root.sh {root} {programs...}").run()?;
    // Cargo's names have hashes.
    for (path, name) in [
        (&oracle, "oracle"),
        (&exec, "exec-test"),
        (&ranges, "ranges-test"),
    ] {
        let file = path.file_name().context("a test has no name")?;
        cmd!(shell, "mv {root}/bin/{file} {root}/bin/{name}").run()?;
    }
    let archive = folder.join("root.cpio.gz");
    let script = "cd $1 && find . | cpio -o -H newc --quiet | gzip -1 >$2";
    cmd!(shell, "sh -c {script} sh {root} {archive}").run()?;
    Ok(archive)
}

/// Returns the folder of Debian's newest point release of a version, as a cloud kernel.
///
/// Downloads the kernel if it is missing, without touching the machine's own packages. Without a
/// network, the package lists of the last run count.
pub(crate) fn newest(shell: &Shell, place: &Path, version: &str, suite: &str) -> Result<PathBuf> {
    shell.create_dir(place.join("lists/partial"))?;
    shell.create_dir(place.join("cache/archives/partial"))?;
    let (sources, state) = (place.join("sources.list"), place.join("lists"));
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    // Most point releases come as security updates, months before they are in the suite itself.
    let archives = [
        format!("debian {suite}"),
        format!("debian {suite}-updates"),
        format!("debian-security {suite}-security"),
    ];
    let archives = archives
        .map(|archive| format!("deb [signed-by={keyring}] http://deb.debian.org/{archive} main\n"));
    shell.write_file(&sources, archives.concat())?;
    let cache = place.join("cache");
    let options = [
        format!("-oDir::Etc::sourcelist={}", sources.display()),
        "-oDir::Etc::sourceparts=-".to_owned(),
        format!("-oDir::State::lists={}", state.display()),
        format!("-oDir::Cache={}", cache.display()),
    ];
    let options = &options;
    // The caller prints its results on standard output.
    cmd!(shell, "apt-get {options...} -qq update")
        .ignore_stdout()
        .run()?;
    let pattern = format!(
        r"^linux-image-{}\..*cloud-amd64$",
        version.replace('.', r"\.")
    );
    let listed = cmd!(
        shell,
        "apt-cache {options...} search --names-only {pattern}"
    )
    .read()?;
    let names = listed.lines().filter_map(|line| line.split(' ').next());
    let names: Vec<&str> = names.collect();
    ensure!(
        !names.is_empty(),
        "Debian's {suite} has no kernel {version}"
    );
    let described = cmd!(shell, "apt-cache {options...} show {names...}").read()?;
    let (package, release) = newest_of(&described)
        .with_context(|| format!("apt does not say which kernels {version} {suite} has"))?;
    eprintln!("guests: the newest {version} of Debian is {release} ({package})");
    let folder = place.join(&release);
    if image_in(shell, &folder).is_none() {
        shell.remove_path(&folder)?;
        shell.create_dir(&folder)?;
        let _folder = shell.push_dir(&folder);
        let exactly = format!("{package}={release}");
        cmd!(shell, "apt-get {options...} -qq download {exactly}")
            .ignore_stdout()
            .run()?;
        let script = "dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './boot/vmlinuz*'";
        cmd!(shell, "sh -c {script}").run()?;
    }
    Ok(folder)
}

/// Returns the kernel image in a folder of an unpacked package.
pub(crate) fn image_in(shell: &Shell, folder: &Path) -> Option<PathBuf> {
    let files = shell.read_dir(folder.join("boot")).ok()?;
    files
        .into_iter()
        .find(|file| file.to_string_lossy().contains("vmlinuz"))
}

/// Returns the name and version of the newest package that `apt-cache show` describes.
fn newest_of(described: &str) -> Option<(String, String)> {
    let packages = described.split("\n\n").filter_map(|package| {
        let field = |name: &str| package.lines().find_map(|line| line.strip_prefix(name));
        Some((field("Package: ")?, field("Version: ")?))
    });
    let numbers = |version: &str| -> Vec<u64> {
        let digits = version.split(|c: char| !c.is_ascii_digit());
        digits.filter_map(|number| number.parse().ok()).collect()
    };
    let (package, version) = packages.max_by_key(|(_, version)| numbers(version))?;
    Some((package.to_owned(), version.to_owned()))
}

/// Returns a root archive with file systems that are modules of the kernel: a second archive after
/// the first.
fn with_modules(shell: &Shell, place: &Path, root: &Path) -> Result<PathBuf> {
    setup::debian(shell, "xz", "xz-utils")?;
    let _folder = shell.push_dir(place);
    // Newer kernels have FUSE built in, and no module of it.
    let script = "set -e
        dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards --transform 's,.*/,,' '*/overlay.ko*' '*/fuse.ko*' 2>tar.log || true
        [ ! -e overlay.ko.xz ] || xz -d -f ./*.ko.xz
        [ -e overlay.ko ]
        (cat $1; ls ./*.ko | cpio -o -H newc --quiet | gzip -1) >root.cpio.gz";
    cmd!(shell, "sh -c {script} sh {root}").run()?;
    Ok(place.join("root.cpio.gz"))
}

/// Runs one guest to its end.
fn boot(shell: &Shell, kernel: &Path, root: &Path, levels: &str, work: Work<'_>) -> Result<()> {
    let Work {
        calls,
        files,
        seed,
        parts,
        suite,
    } = work;
    // Without cx16, because QEMU 7.2 emulates the instruction wrongly. With la57, page tables have
    // five levels.
    let append = format!(
        "console=ttyS0 quiet panic=-1 SAMARA_GUEST={parts} SAMARA_ORACLE_CALLS={calls} SAMARA_ORACLE_SEED={seed} SAMARA_ORACLE_SUITE={suite} SAMARA_EXEC_FILES={files} SAMARA_EXEC_SEED={seed}"
    );
    let machine = format!(
        "-M q35 -accel tcg -cpu max,-cx16,{levels} -smp 2 -m 2048 -nographic -no-reboot -net none"
    );
    let machine = machine.split(' ');
    let machine = cmd!(
        shell,
        "timeout {TIMEOUT} qemu-system-x86_64 {machine...} -kernel {kernel} -initrd {root} -append {append}"
    );
    let agrees = print_live(machine.into()).context("the guest does not start")?;
    ensure!(agrees, "the guest did not end with \"all agree\"");
    Ok(())
}

/// Prints the guest's console line by line, and returns `true` if all agreed.
fn print_live(mut machine: Command) -> std::io::Result<bool> {
    let mut guest = machine.stdout(Stdio::piped()).spawn()?;
    let mut agrees = false;
    if let Some(console) = guest.stdout.take() {
        for line in BufReader::new(console).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            // Lines of the firmware, which draws with escapes, are left out.
            if !line.contains('\u{1b}') {
                println!("{}", line.trim_end());
                agrees |= line.trim_end() == "guest: all agree";
            }
        }
    }
    guest.wait()?;
    Ok(agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_releases_are_in_the_order_of_their_numbers() {
        let described = "Package: linux-image-6.1.0-9-cloud-amd64\nVersion: 6.1.27-1\n\n\
            Package: linux-image-6.1.0-57-cloud-amd64\nSource: linux\nVersion: 6.1.192-3\n\n\
            Package: linux-image-6.1.0-55-cloud-amd64\nVersion: 6.1.192-1\n";
        let newest = ("linux-image-6.1.0-57-cloud-amd64", "6.1.192-3");
        let newest = (newest.0.to_owned(), newest.1.to_owned());
        assert_eq!(newest_of(described), Some(newest));
        assert_eq!(newest_of(""), None);
    }
}
