//! Arguments, environments and scripts.

use crate::elf::{Elf, load};

use super::{NO_RANDOM, Run, subject};

/// Arguments and environments of all sizes.
pub(super) fn strings(run: &mut Run) {
    let code = load(0, 0x40_0000, 0x1000, 0x1000, 5);
    let mut paths = vec![run.write("made", &Elf::new(false, &[code]).bytes())];
    if run.narrow {
        paths.push(run.write("made32", &Elf::new(false, &[code]).narrow().bytes()));
    }
    for path in &paths {
        for (count, size) in [
            (0, 0),
            (1, 0),
            (1, 4000),
            (1, 8000),
            (1, 100_000),
            (1, 131_070),
            (1, 131_071),
            (1, 131_072),
            (3, 100_000),
            (20, 100_000),
            (21, 100_000),
            (22, 100_000),
            (63, 100_000),
            (1000, 10),
            (10_000, 0),
            (10_000, 1),
            (14_000, 1),
            (300_000, 0),
            (100_000, 8),
        ] {
            for stack in [
                4096,
                16384,
                65536,
                200_000,
                1 << 20,
                8 << 20,
                64 << 20,
                u64::MAX,
            ] {
                for personality in [NO_RANDOM, 0] {
                    let mut subject = subject(path, personality);
                    let text = vec![b'x'; size];
                    if count % 2 == 1 || count == 0 {
                        subject.arguments = vec![text; count];
                    } else {
                        subject.environment = vec![text; count];
                    }
                    subject.limits = vec![(libc::RLIMIT_STACK, stack)];
                    run.check(&subject, &|| format!("{count} strings of {size} bytes"));
                }
            }
        }
        for size in 0..40 {
            let mut subject = subject(path, NO_RANDOM);
            subject.arguments.push(vec![b'x'; size]);
            run.check(&subject, &|| format!("an argument of {size} bytes"));
        }
    }
}

/// `#!`.
pub(super) fn scripts(run: &mut Run) {
    let code = load(0, 0x40_0000, 0x1000, 0x1000, 5);
    let program = run.write("made", &Elf::new(false, &[code]).bytes());
    let long = |n: usize| format!("#!{}{program}\n", " ".repeat(n));
    let reach = 256 - 3 - program.len();
    let mut texts: Vec<Vec<u8>> = [
        format!("#!{program}\n"),
        format!("#!{program}"),
        format!("#! {program}\n"),
        format!("#!\t {program} \t\n"),
        format!("#!{program} -x\n"),
        format!("#!{program}  -x  y z \t \n"),
        format!("#!{program} -x"),
        format!("#!{program}\0 -x\n"),
        format!("#!{program} -x\0y\n"),
        format!("#!{program} {}\n", "y".repeat(300)),
        format!("#!{program} {}", "y".repeat(300)),
        format!("#!{program} {}", "y".repeat(100)),
        format!("#!{program}{}", " ".repeat(300)),
        format!("#!{}", "y".repeat(300)),
        format!("#!{}", "y".repeat(100)),
        format!("#!/{}\n", "y".repeat(250)),
        "#!".into(),
        "#!\n".into(),
        "#! \t\n".into(),
        format!("#!\n{program}\n"),
        "#!/nowhere\n".into(),
        "#!/etc/passwd\n".into(),
        "#!/\n".into(),
        format!("#{program}\n"),
        "echo\n".into(),
        String::new(),
        format!("#!{}", " ".repeat(300)),
        "#!\0".into(),
        format!("#!{program}\r\n"),
    ]
    .map(String::into_bytes)
    .into();
    for n in reach - 3..reach + 4 {
        texts.push(long(n).into_bytes());
        texts.push(long(n).trim_end().as_bytes().to_vec());
        texts.push(format!("{} x\n", long(n).trim_end()).into_bytes());
    }
    for text in &texts {
        let path = run.write("script", text);
        for personality in [NO_RANDOM, 0] {
            for count in [0, 1, 3] {
                let mut subject = subject(&path, personality);
                subject.arguments = vec![b"first".to_vec(); count];
                run.check(&subject, &|| format!("{:?}", String::from_utf8_lossy(text)));
            }
        }
    }
    // The first argument goes when the script's name comes.
    let path = run.write("script", format!("#!{program} -x\n").as_bytes());
    for (size, stack) in [
        (100_000, 8 << 20),
        (131_071, 65536),
        (131_071, 1 << 20),
        (5000, 4096),
        (3900, 4096),
        (4050, 4096),
        (4070, 4096),
    ] {
        let mut subject = subject(&path, NO_RANDOM);
        subject.arguments = vec![vec![b'x'; size], b"y".to_vec()];
        subject.limits = vec![(libc::RLIMIT_STACK, stack)];
        run.check(&subject, &|| format!("a first argument of {size} bytes"));
    }
    // Scripts of scripts.
    let mut last = program;
    for depth in 1..8 {
        last = run.write(
            &format!("script{depth}"),
            format!("#!{last} {depth}\n").as_bytes(),
        );
        run.check(&subject(&last, NO_RANDOM), &|| format!("{depth} scripts"));
    }
    let path = run.folder.join("circle").to_str().unwrap().to_owned();
    run.write("circle", format!("#!{path}\n").as_bytes());
    run.check(&subject(&path, NO_RANDOM), &|| "a circle".into());
}
