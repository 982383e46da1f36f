/// Returns a file in memory with this number.
fn file(number: u64, readable: bool, writable: bool) -> Counted<File> {
    let file = File {
        id: FileId {
            major: 0,
            minor: 1,
            inode: number,
        },
        description: std::num::NonZeroU64::new(number),
        name: "file".into(),
        readable,
        writable,
        noexec: false,
        kind: FileKind::Shmem,
        seals: 0,
        driver: DriverFlags::default(),
        object: Object::none(),
    };
    Counted::try_new(file).unwrap()
}

