//! Numbers of things as people read them: `no calls`, `1 call`, `2,345 calls`, `1.5 MiB`.

/// Returns a number with a comma before every third digit.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a size as people read it.
pub fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let digits = usize::from(unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Returns a number of things whose plural follows the rule: `no processes`, `1 process`, `2
/// processes`.
pub fn number_of(number: u64, one: &str) -> String {
    plural(number, one, &many(one))
}

/// Returns a number of things with both forms given.
pub fn plural(number: u64, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        number => format!("{} {many}", grouped(number)),
    }
}

/// Returns the plural of a noun, or of a phrase that ends with one.
fn many(one: &str) -> String {
    const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];
    match one.strip_suffix('y') {
        Some(stem) if !stem.ends_with(VOWELS) => format!("{stem}ies"),
        _ if one.ends_with(['s', 'x']) || one.ends_with("ch") => format!("{one}es"),
        _ => format!("{one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_english_plurals() {
        let all = |one| [0, 1, 2, 12_345].map(|number| number_of(number, one));
        assert_eq!(
            all("call"),
            ["no calls", "1 call", "2 calls", "12,345 calls"]
        );
        assert_eq!(number_of(2, "process"), "2 processes");
        assert_eq!(number_of(2, "address space"), "2 address spaces");
        assert_eq!(number_of(2, "address"), "2 addresses");
        assert_eq!(number_of(2, "page-table entry"), "2 page-table entries");
        assert_eq!(number_of(2, "key"), "2 keys");
        assert_eq!(plural(1, "child", "children"), "1 child");
        assert_eq!(plural(0, "child", "children"), "no children");
    }
}
