//! Paths without the `r#` of raw identifiers, at compile time: a module's name may end up on the broker.

/// A path of at most `N` bytes.
#[derive(Debug)]
pub struct Unraw<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Unraw<N> {
    /// `path` without any `r#`. Nothing else in a path has a `#`.
    pub const fn of(path: &str) -> Self {
        let from = path.as_bytes();
        let (mut bytes, mut len, mut at) = ([0; N], 0, 0);
        while at < from.len() {
            if from[at] == b'r' && at + 1 < from.len() && from[at + 1] == b'#' {
                at += 2;
            } else {
                bytes[len] = from[at];
                (len, at) = (len + 1, at + 1);
            }
        }
        Unraw { bytes, len }
    }

    /// The path.
    pub const fn as_str(&self) -> &str {
        match str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(path) => path,
            Err(_) => panic!("what is left of a path is text"),
        }
    }
}

/// The path of the item `$ident` in the module of the call. It names a job that was given no name.
#[doc(hidden)]
#[macro_export]
macro_rules! __path {
    ($ident:literal) => {{
        const PATH: &$crate::__private::str =
            $crate::__private::concat!($crate::__private::module_path!(), "::", $ident);
        const UNRAW: $crate::__private::Unraw<{ PATH.len() }> = $crate::__private::Unraw::of(PATH);
        UNRAW.as_str()
    }};
}

#[cfg(test)]
mod tests {
    use super::Unraw;

    #[test]
    fn every_segment_loses_its_raw_mark() {
        for (path, clean) in [
            ("r#crate_a::r#match::r#type", "crate_a::match::type"),
            ("a::br::r", "a::br::r"),
            ("größe::r#für", "größe::für"),
            ("", ""),
        ] {
            assert_eq!(Unraw::<32>::of(path).as_str(), clean);
        }
    }
}
