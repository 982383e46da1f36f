//! Names of users.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

/// The known users. A name may need a request over a network, so each is asked for only once.
#[derive(Debug, Default)]
pub(super) struct Users(HashMap<u32, Arc<str>>);

impl Users {
    /// Returns the name of a user, or the number where it has none.
    pub(super) fn name(&mut self, user: u32) -> Arc<str> {
        let known = self.0.entry(user);
        let asked = || look_up(user).unwrap_or_else(|| user.to_string());
        known.or_insert_with(|| asked().into()).clone()
    }
}

fn look_up(user: u32) -> Option<String> {
    // Longer entries than this are not looked for.
    let mut text = vec![0; 16 << 10];
    // SAFETY: all zeros is a valid value of this struct of integers and pointers.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: `entry` and `found` are valid places for the answer, and `text` has the length that
    // is told.
    let result =
        unsafe { libc::getpwuid_r(user, &mut entry, text.as_mut_ptr(), text.len(), &mut found) };
    if result != 0 || found.is_null() || entry.pw_name.is_null() {
        return None;
    }
    // SAFETY: the name ends with a zero byte and lies in `text`, which is still there.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        let mut users = Users::default();
        assert_eq!(&*users.name(0), "root");
        // Reserved: no user has it.
        assert_eq!(&*users.name(u32::MAX - 1), "4294967294");
        assert_eq!(&*users.name(0), "root");
    }
}
