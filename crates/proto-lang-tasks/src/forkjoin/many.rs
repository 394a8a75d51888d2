//! A join of more than two closures: nested joins of two, so that the first runs at once, and whoever takes the rest cuts that again.

/// [`join`](crate::join()) of any number of closures: runs them all, potentially in parallel, and gives a tuple of their results.
///
/// # Panics
///
/// As [`join`](crate::join()): all closures are run to their end; then, of those that panicked, the panic of the one that is written first goes on.
///
/// # Examples
///
/// ```
/// let text = "one two three";
/// let (bytes, words, upper) = proto_lang_tasks::join!(
///     || text.len(),
///     || text.split(' ').count(),
///     || text.to_uppercase(),
/// );
/// assert_eq!((bytes, words, upper.as_str()), (13, 3, "ONE TWO THREE"));
/// ```
#[macro_export]
macro_rules! join {
    (@nest $first:expr) => { $first };
    (@nest $first:expr, $($rest:expr),+) => {
        || $crate::join($first, $crate::join!(@nest $($rest),+))
    };
    // Each step's `part` is a name of its own.
    (@flat $nested:expr; ($($parts:ident)*); $last:expr) => {{
        let part = $nested;
        ($($parts,)* part,)
    }};
    (@flat $nested:expr; ($($parts:ident)*); $first:expr, $($rest:expr),+) => {{
        let (part, rest) = $nested;
        $crate::join!(@flat rest; ($($parts)* part); $($rest),+)
    }};
    ($only:expr $(,)?) => { (($only)(),) };
    ($first:expr, $($rest:expr),+ $(,)?) => {
        $crate::join!(@flat $crate::join($first, $crate::join!(@nest $($rest),+)); (); $first, $($rest),+)
    };
}
