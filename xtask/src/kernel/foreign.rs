//! The tools for programs of other architectures: Debian's packages, unpacked without touching the
//! machine's own.
//!
//! Cross compilers conflict with `gcc-multilib`, which other tiers install, so they are not
//! installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use super::Arch;
use crate::setup;

/// The options of an apt whose state is in a folder of its own.
struct Apt(Vec<String>);

impl Apt {
    /// Downloads the package lists of this machine's Debian release, for an architecture by
    /// Debian's name, or for the machine's own.
    fn new(shell: &Shell, folder: &Path, architecture: Option<&str>) -> Result<Self> {
        let release = shell.read_file("/etc/os-release")?;
        let suite = release
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
            .context("/etc/os-release names no release of Debian")?;
        for inner in ["state/lists/partial", "cache/archives/partial"] {
            shell.create_dir(folder.join(inner))?;
        }
        let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let archives = [
            format!("debian {suite}"),
            format!("debian {suite}-updates"),
            format!("debian-security {suite}-security"),
        ];
        let lines = archives.iter().flat_map(|archive| {
            ["deb", "deb-src"].map(|kind| {
                format!("{kind} [signed-by={keyring}] http://deb.debian.org/{archive} main\n")
            })
        });
        shell.write_file(folder.join("sources.list"), lines.collect::<String>())?;
        // An empty status file: no package is installed here.
        shell.write_file(folder.join("status"), "")?;
        let place = folder.display();
        let mut options = vec![
            format!("-oDir::Etc::sourcelist={place}/sources.list"),
            "-oDir::Etc::sourceparts=-".to_owned(),
            format!("-oDir::State={place}/state"),
            format!("-oDir::State::status={place}/status"),
            format!("-oDir::Cache={place}/cache"),
            "-oAPT::Sandbox::User=root".to_owned(),
            "-oDebug::NoLocking=1".to_owned(),
        ];
        if let Some(architecture) = architecture {
            options.push(format!("-oAPT::Architecture={architecture}"));
            options.push(format!("-oAPT::Architectures={architecture}"));
        }
        let apt = Apt(options);
        apt.run(shell, &["update"])?;
        Ok(apt)
    }

    fn run(&self, shell: &Shell, words: &[&str]) -> Result<()> {
        let options = &self.0;
        cmd!(shell, "apt-get {options...} -qq {words...}")
            .quiet()
            .ignore_stdout()
            .env("DEBIAN_FRONTEND", "noninteractive")
            .run()
            .with_context(|| format!("apt-get cannot {}", words.join(" ")))
    }
}

/// Unpacks packages and their dependencies into a folder, unless the folder exists.
fn unpacked(
    shell: &Shell,
    folder: &Path,
    architecture: Option<&str>,
    packages: &[&str],
) -> Result<()> {
    if shell.path_exists(folder) {
        return Ok(());
    }
    setup::debian(shell, "dpkg-deb", "dpkg")?;
    let apt_folder = folder.with_extension("apt");
    let apt = Apt::new(shell, &apt_folder, architecture)?;
    let install = [
        "install",
        "-y",
        "--no-install-recommends",
        "--download-only",
    ];
    apt.run(shell, &[&install, packages].concat())?;
    let script = "set -e; for package in $1/cache/archives/*.deb; do dpkg-deb -x $package $2.new; done; mv $2.new $2";
    cmd!(shell, "sh -c {script} sh {apt_folder} {folder}")
        .quiet()
        .run()?;
    shell.remove_path(apt_folder)?;
    Ok(())
}

/// A C cross compiler, with the static libraries of glibc.
pub(crate) struct Cross {
    folder: PathBuf,
    prefix: String,
}

impl Cross {
    pub(crate) fn new(shell: &Shell, arch: Arch) -> Result<Self> {
        let name = arch.name();
        let folder = super::folder(shell, arch).join("cross");
        let library = match arch {
            Arch::Aarch64 => "libc6-dev-arm64-cross".to_owned(),
            _ => format!("libc6-dev-{name}-cross"),
        };
        let compiler = format!("gcc-{name}-linux-gnu");
        unpacked(shell, &folder, None, &[&compiler, &library])?;
        let prefix = format!("{}/usr/bin/{name}-linux-gnu-", folder.display());
        Ok(Cross { folder, prefix })
    }

    /// Returns the compiler, and the option for its files.
    pub(crate) fn command(&self) -> (String, String) {
        let (prefix, folder) = (&self.prefix, self.folder.display());
        (format!("{prefix}gcc"), format!("--sysroot={folder}"))
    }

    /// Returns the folder of the compiler's own libraries.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.folder.join("usr/lib/x86_64-linux-gnu")
    }

    /// Compiles a static program.
    pub(crate) fn compile(&self, shell: &Shell, arguments: &[OsString]) -> Result<()> {
        let (compiler, folder) = self.command();
        cmd!(shell, "{compiler} {folder} {arguments...}")
            .env("LD_LIBRARY_PATH", self.libraries())
            .run()?;
        Ok(())
    }
}

/// Returns BusyBox for another architecture, and the names of its applets if they are not those of
/// Debian's.
pub(super) fn busybox(shell: &Shell, arch: Arch) -> Result<(PathBuf, Option<Vec<String>>)> {
    let folder = super::folder(shell, arch);
    if arch == Arch::Aarch64 {
        let unpacked_to = folder.join("busybox");
        unpacked(shell, &unpacked_to, Some("arm64"), &["busybox-static"])?;
        return Ok((unpacked_to.join("bin/busybox"), None));
    }
    let (busybox, links) = (folder.join("busybox"), folder.join("busybox.links"));
    if !shell.path_exists(&links) {
        build_busybox(shell, &folder, &Cross::new(shell, arch)?)?;
    }
    let links = shell.read_file(links)?;
    let names = links.lines().filter_map(|line| line.rsplit('/').next());
    Ok((busybox, Some(names.map(str::to_owned).collect())))
}

/// Builds BusyBox from Debian's sources.
fn build_busybox(shell: &Shell, folder: &Path, cross: &Cross) -> Result<()> {
    for (program, package) in [
        ("dpkg-source", "dpkg-dev"),
        ("make", "make"),
        ("cc", "gcc"),
        ("bzip2", "bzip2"),
    ] {
        setup::debian(shell, program, package)?;
    }
    let sources = folder.join("busybox-source");
    shell.remove_path(&sources)?;
    let apt = Apt::new(shell, &sources, None)?;
    let _folder = shell.push_dir(&sources);
    apt.run(shell, &["source", "busybox"])?;
    // `tc` does not compile with current kernel headers.
    let script = "set -e; cd busybox-*/; exec >../build.log 2>&1
make defconfig
sed -i 's/^# CONFIG_STATIC is not set/CONFIG_STATIC=y/; s/^CONFIG_TC=y/# CONFIG_TC is not set/' .config
make -j$(nproc) CROSS_COMPILE=$1 CC=\"$2 $3\"
make busybox.links
cp busybox busybox.links ../..";
    let prefix = &cross.prefix;
    let (compiler, sysroot) = cross.command();
    cmd!(shell, "sh -c {script} sh {prefix} {compiler} {sysroot}")
        .quiet()
        .env("LD_LIBRARY_PATH", cross.libraries())
        .run()
        .with_context(|| format!("BusyBox: see {}/build.log", sources.display()))
}
