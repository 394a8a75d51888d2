//! Bodies from a file: a line each with mass, position and velocity, seven numbers with spaces, tabs or commas between them. What follows a `#`
//! is for people; a first line without any number in it is taken for the names of the columns.

use std::fs;
use std::path::Path;

use glam::DVec3;

use crate::bodies::Body;

const COLUMNS: [&str; 7] = ["mass", "x", "y", "z", "vx", "vy", "vz"];

/// Reads the bodies of a file.
///
/// # Errors
/// A sentence for the user that names the file, and the line and what is wrong with it.
pub(crate) fn read(path: &Path) -> Result<Vec<Body>, String> {
    let name = path.display();
    let advice = || format!("give a text file with {} in each line", COLUMNS.join(" "));
    let text = fs::read(path).map_err(|error| format!("{name}: {error}; {}", advice()))?;
    let text = String::from_utf8(text).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{name}:{line}: this is no text (not UTF-8); {}", advice())
    })?;
    let bodies = parse(&text).map_err(|(line, what)| format!("{name}:{line}: {what}"))?;
    if bodies.is_empty() {
        return Err(format!("{name}: no bodies in it; {}", advice()));
    }
    Ok(bodies)
}

/// The bodies in a text, or the line that is wrong and why.
fn parse(text: &str) -> Result<Vec<Body>, (usize, String)> {
    let mut bodies = Vec::new();
    let mut first = true;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = words(line).collect();
        if words.is_empty() {
            continue;
        }
        let names = first && words.iter().all(|word| word.parse::<f64>().is_err());
        first = false;
        if !names {
            let number = u32::try_from(bodies.len())
                .map_err(|_| (index + 1, "too many bodies: at most 2^32 are possible".to_owned()))?;
            bodies.push(body(number, &words).map_err(|what| (index + 1, what))?);
        }
    }
    Ok(bodies)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c == ',' || c == ';' || c.is_whitespace()).filter(|word| !word.is_empty())
}

fn body(number: u32, words: &[&str]) -> Result<Body, String> {
    if words.len() != COLUMNS.len() {
        return Err(format!("{} values where there should be 7: {}", words.len(), COLUMNS.join(" ")));
    }
    let mut values = [0.0; COLUMNS.len()];
    for ((value, word), column) in values.iter_mut().zip(words).zip(COLUMNS) {
        *value = word.parse().map_err(|_| format!("{column}: {word:?} is not a number, such as 1.5 or -2e-3"))?;
        // Squares of squares of distances are finite then as well.
        if !(-1e50..1e50).contains(value) {
            return Err(format!("{column}: {word} is not a number between -1e50 and 1e50; take other units"));
        }
    }
    let [mass, x, y, z, vx, vy, vz] = values;
    if mass < 0.0 {
        return Err(format!("mass: {mass} is negative; the least is 0, for a body that is pulled only"));
    }
    Ok(Body::new(number, mass, DVec3::new(x, y, z), DVec3::new(vx, vy, vz)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_tabs_names_and_remarks_are_understood() {
        let bodies = parse("m, x, y, z, vx, vy, vz\n# two\n1,2,3,4,5,6,7\n\n 1e-3\t-1 0 .5  0 0 0 # the small one\r\n");
        let bodies = bodies.expect("two bodies");
        assert_eq!(bodies.len(), 2);
        assert_eq!((bodies[0].mass, bodies[0].velocity), (1.0, DVec3::new(5.0, 6.0, 7.0)));
        assert_eq!((bodies[1].mass, bodies[1].position), (1e-3, DVec3::new(-1.0, 0.0, 0.5)));
        assert_eq!(bodies[1].number, 1);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_column() {
        for (text, line, part) in [
            ("1 0 0 0 0 0 0\n1 2 3\n", 2, "3 values where there should be 7: mass x y z vx vy vz"),
            ("1 0 0 zero 0 0 0\n", 1, "z: \"zero\" is not a number"),
            ("# none\n\n-1 0 0 0 0 0 0", 3, "mass: -1 is negative"),
            ("1 0 0 0 0 NaN 0", 1, "vy: NaN is not a number between"),
            ("1 0 inf 0 0 0 0", 1, "y: inf is not a number between"),
            ("mass x y z vx vy vz\nmass x y z vx vy vz\n", 2, "mass: \"mass\" is not a number"),
        ] {
            let (found, what) = parse(text).expect_err(text);
            assert_eq!(found, line, "{text}: {what}");
            assert!(what.contains(part), "{text}: {what}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_a_remedy() {
        let error = read(Path::new("no such file")).expect_err("not there");
        assert!(error.starts_with("no such file: No such file"), "{error}");
        assert!(error.contains("mass x y z vx vy vz in each line"), "{error}");
    }
}
