//! Tests Rust's standard library: threads, locks and channels, caught panics, processes, files,
//! time.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::panic;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

fn threads() {
    let sum = Arc::new(AtomicU64::new(0));
    let barrier = Arc::new(Barrier::new(4));
    let workers = (0..4u64).map(|number| {
        let (sum, barrier) = (sum.clone(), barrier.clone());
        thread::spawn(move || {
            barrier.wait();
            for i in 0..10_000 {
                sum.fetch_add(i, Ordering::Relaxed);
            }
            number * number
        })
    });
    let workers: Vec<_> = workers.collect();
    let squares: Vec<u64> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    println!("threads: {} {squares:?}", sum.load(Ordering::Relaxed));

    let (sender, receiver) = mpsc::channel();
    for number in 0..3 {
        let sender = sender.clone();
        thread::spawn(move || (0..100).for_each(|i| sender.send(number * 100 + i).unwrap()));
    }
    drop(sender);
    println!("channel: {}", receiver.iter().sum::<i32>());

    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let other = turn.clone();
    let player = thread::spawn(move || {
        for i in (1..100).step_by(2) {
            let mut at = other.1.wait_while(other.0.lock().unwrap(), |at| *at != i).unwrap();
            *at += 1;
            other.1.notify_all();
        }
    });
    for i in (0..100).step_by(2) {
        let mut at = turn.1.wait_while(turn.0.lock().unwrap(), |at| *at != i).unwrap();
        *at += 1;
        turn.1.notify_all();
    }
    player.join().unwrap();
    println!("turns: {}", turn.0.lock().unwrap());

    let (_turn, late) = turn.1.wait_timeout(turn.0.lock().unwrap(), Duration::from_millis(30)).unwrap();
    println!("late: {}", late.timed_out());
    drop(_turn);

    let map = RwLock::new(BTreeMap::new());
    thread::scope(|scope| {
        for i in 0..8 {
            let map = &map;
            scope.spawn(move || map.write().unwrap().insert(i, i * i));
        }
    });
    println!("scope: {:?}", map.read().unwrap());
    let deep = thread::Builder::new().stack_size(16 << 20).name("deep".into());
    let deep = deep.spawn(|| {
        fn down(left: u32) -> u32 {
            if left == 0 { 0 } else { 1 + std::hint::black_box(down(left - 1)) }
        }
        (thread::current().name().map(str::to_owned), down(100_000))
    });
    println!("deep: {:?}", deep.unwrap().join().unwrap());
}

fn panics() {
    panic::set_hook(Box::new(|info| println!("hook: {}", info.payload().downcast_ref::<&str>().unwrap_or(&"other"))));
    let caught = panic::catch_unwind(|| {
        let _guard = Guard;
        panic!("first");
    });
    println!("caught: {:?}", caught.unwrap_err().downcast_ref::<&str>());
    let thread = thread::spawn(|| {
        let empty: Vec<u32> = Vec::new();
        empty[std::hint::black_box(3)]
    });
    println!("thread ended by a panic: {}", thread.join().is_err());
    let lock = Arc::new(Mutex::new(1));
    let other = lock.clone();
    let _ = thread::spawn(move || {
        let _held = other.lock().unwrap();
        panic!("poison");
    })
    .join();
    println!("poisoned: {}", lock.is_poisoned());
    let _ = panic::take_hook();
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        println!("dropped while panicking: {}", thread::panicking());
    }
}

fn processes() -> io::Result<()> {
    let own = std::env::current_exe()?;
    let run = |words: &[&str]| Command::new(&own).args(words).env("PLACE", "there").output();
    let output = run(&["child", "a b", "ü"])?;
    println!("output: {:?} {:?}", String::from_utf8_lossy(&output.stdout), output.status.code());
    println!("status: {:?}", run(&["exit", "7"])?.status.code());
    let aborted = run(&["abort"])?.status;
    println!("abort: {:?}", std::os::unix::process::ExitStatusExt::signal(&aborted));
    let missing = Command::new("/no/such/program").spawn();
    println!("missing: {:?}", missing.unwrap_err().kind());
    let mut pipe = Command::new(&own).arg("upper").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = pipe.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for i in 0..1000 {
            writeln!(input, "line {i}").unwrap();
        }
    });
    let mut text = String::new();
    pipe.stdout.take().unwrap().read_to_string(&mut text)?;
    writer.join().unwrap();
    println!("pipe: {} {:?} {}", text.lines().count(), text.lines().last(), pipe.wait()?.success());
    let mut sleeper = Command::new(&own).args(["sleep"]).spawn()?;
    println!("runs: {}", sleeper.try_wait()?.is_none());
    sleeper.kill()?;
    println!("killed: {:?}", std::os::unix::process::ExitStatusExt::signal(&sleeper.wait()?));
    Ok(())
}

fn child(words: &[String]) -> io::Result<()> {
    match words[0].as_str() {
        "child" => print!("{:?} {:?}", &words[1..], std::env::var("PLACE")),
        "exit" => std::process::exit(words[1].parse().unwrap()),
        "abort" => std::process::abort(),
        "sleep" => thread::sleep(Duration::from_secs(60)),
        _ => {
            for line in io::stdin().lock().lines() {
                println!("{}", line?.to_uppercase());
            }
        }
    }
    Ok(())
}

fn files() -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("standard-{}", std::process::id()));
    fs::create_dir_all(folder.join("a/b"))?;
    let path = folder.join("a/file");
    fs::write(&path, "one\ntwo\nthree\n")?;
    let mut file = fs::File::options().read(true).write(true).open(&path)?;
    file.seek(SeekFrom::End(-6))?;
    let mut rest = String::new();
    file.read_to_string(&mut rest)?;
    file.set_len(4)?;
    println!("file: {rest:?} {:?} {}", fs::read_to_string(&path)?, file.metadata()?.len());
    std::os::unix::fs::symlink("file", folder.join("a/link"))?;
    fs::rename(&path, folder.join("a/moved"))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.join("a"))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        names.push((entry.file_name(), kind.is_dir(), kind.is_symlink()));
    }
    names.sort();
    println!("names: {names:?}");
    println!("gone: {:?}", fs::read(folder.join("a/link")).unwrap_err().kind());
    println!("copied: {}", fs::copy(folder.join("a/moved"), folder.join("copy"))?);
    fs::remove_dir_all(&folder)?;
    println!("removed: {}", !folder.exists());
    Ok(())
}

fn memory() {
    let mut all: HashMap<u64, Vec<u8>> = HashMap::new();
    for i in 0..2_000u64 {
        all.insert(i, vec![i as u8; (i * 37 % 5_000) as usize]);
        if i % 3 == 0 {
            all.remove(&(i / 2));
        }
    }
    let bytes: usize = all.values().map(Vec::len).sum();
    let mut large = vec![1u8; 32 << 20];
    large.resize(40 << 20, 2);
    println!("memory: {} {bytes} {}", all.len(), large.iter().map(|&byte| u64::from(byte)).sum::<u64>());
    println!("too much: {}", Vec::<u8>::new().try_reserve(1 << 46).is_err());
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.is_empty() {
        return child(&words);
    }
    let start = Instant::now();
    threads();
    panics();
    processes()?;
    files()?;
    memory();
    thread::sleep(Duration::from_millis(20));
    println!("time: {}", start.elapsed() >= Duration::from_millis(50));
    Ok(())
}
