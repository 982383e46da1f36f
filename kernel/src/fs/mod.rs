//! Files: a tree in memory, pipes, the console, devices and `/proc`.
//!
//! The content of a regular file consists of pages of samara-mm's file cache. A byte that one
//! program writes by `write(2)` is in the frame that another program has mapped.
//!
//! | file | concept |
//! |---|---|
//! | `inode`, `regular` | inodes of all kinds; file content |
//! | `path` | directory entries, path lookup, mounts |
//! | `open_file`, `fd_table` | open file descriptions; file descriptors |
//! | `pipe`, `console`, `device` | pipes and character devices |
//! | `procfs` | `/proc` |
//! | `initramfs`, `decompress` | the initial files, from the boot loader's archive |

pub mod console;
mod decompress;
mod device;
mod fd_table;
mod initramfs;
mod inode;
mod open_file;
mod path;
mod pipe;
mod procfs;
mod regular;

pub use device::{Device, fill_random};
pub use fd_table::{Descriptor, FdTable};
pub use initramfs::unpack;
pub use inode::{Inode, Kind, wall_time};
pub use open_file::{OpenFile, Transfer};
pub use path::{Dentry, create, drop_all, find, find_parent, mount, remove, rename, root, unmount};
pub use procfs::pid_dir;

pub const O_RDONLY: u32 = 0;
pub const O_WRONLY: u32 = 1;
pub const O_RDWR: u32 = 2;
pub const O_ACCMODE: u32 = 3;
pub const O_CREAT: u32 = 0o100;
pub const O_EXCL: u32 = 0o200;
pub const O_TRUNC: u32 = 0o1000;
pub const O_APPEND: u32 = 0o2000;
pub const O_NONBLOCK: u32 = 0o4000;
pub const O_PATH: u32 = 0o10_000_000;
pub const O_CLOEXEC: u32 = 0o2_000_000;
