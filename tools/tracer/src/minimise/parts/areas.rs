/// Returns the areas in one of the windows: start, end, access.
fn areas(space: &AddressSpace, windows: &[(i64, i64)]) -> Vec<(i64, i64, String)> {
    let lines = space.maps().map(|line| {
        let perms = String::from_utf8_lossy(&line.perms).into_owned();
        (line.start as i64, line.end as i64, perms)
    });
    lines
        .filter(|line| windows.iter().any(|window| line.0 < window.1 && window.0 < line.1))
        .collect()
}

