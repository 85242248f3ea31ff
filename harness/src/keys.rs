//! The keys and the values of the core grid. Nothing here is timed, but what a timed read costs begins here.
//!
//! # How the loop gets at a key
//!
//! Keys are zero-padded decimals of one length, side by side in one block of memory that lives for ever. The header
//! (pointer and length) of key *i* is computed from *i*; it is not loaded from a table of headers, which would cost
//! each operation a second cache miss that no design is to blame for. The key's *bytes* are read where the design
//! hashes them: that miss is part of every operation, as it would be in a service that was just handed the key.
//! `noop` hashes nothing and so does not pay it.

use std::fmt::Write as _;

/// The key type of the core grid: a 16-byte header, copied like Go's `string`.
pub type Key = &'static str;
/// The value type of the core grid.
pub type Value = &'static str;

/// Keys by their number, as the timed loop asks for them.
pub trait KeySet: Sync {
    /// How many keys there are.
    fn count(&self) -> usize;

    /// Key number `index`, below [`count`](KeySet::count). Part of the timed work.
    fn key(&self, index: usize) -> Key;
}

impl KeySet for Keys {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn key(&self, index: usize) -> Key {
        self.get(index)
    }
}

/// Keys with a name and their number: `key-0`, `key-1`, and so on, without padding.
///
/// Their lengths differ, so their headers lie in a table and are loaded from it, as a program does that keeps its
/// keys in a list. That is one more cache miss per operation than [`Keys`] costs.
#[derive(Clone, Copy, Debug)]
pub struct NumberedKeys(&'static [Key]);

impl NumberedKeys {
    /// Writes out `count` keys, side by side. O(`count`); the memory is never given back.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(count);
        for index in 0..count {
            // Writing to a string cannot fail.
            let _ = write!(text, "key-{index}");
            ends.push(text.len());
        }
        let text: &'static str = text.leak();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let keys: Vec<Key> = starts
            .zip(&ends)
            .map(|(start, &end)| &text[start..end])
            .collect();
        Self(keys.leak())
    }
}

impl KeySet for NumberedKeys {
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn key(&self, index: usize) -> Key {
        self.0[index]
    }
}

/// The keys of a run: `count` zero-padded decimals of `length` characters, 0 first.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Invariant: ASCII, `count * length` bytes or more.
    digits: &'static str,
    length: usize,
    count: usize,
}

impl Keys {
    /// The most keys that `length` characters can tell apart, and that an operation can be packed with.
    #[must_use]
    pub fn most(length: usize) -> u64 {
        10_u64
            .checked_pow(u32::try_from(length).unwrap_or(u32::MAX))
            .unwrap_or(u64::MAX)
            .min(1 << 31)
    }

    /// Writes out the keys. O(`count`); the memory is never given back.
    ///
    /// # Panics
    ///
    /// Where [`Keys::most`] for that length is less than `count`.
    #[must_use]
    pub fn new(count: usize, length: usize) -> Self {
        assert!(
            count as u64 <= Self::most(length),
            "{count} keys do not fit {length} characters"
        );
        let mut digits = vec![b'0'; count * length];
        let mut next = vec![b'0'; length];
        for key in digits.chunks_exact_mut(length.max(1)) {
            key.copy_from_slice(&next);
            for digit in next.iter_mut().rev() {
                if *digit < b'9' {
                    *digit += 1;
                    break;
                }
                *digit = b'0';
            }
        }
        let digits = String::from_utf8(digits).expect("digits are ASCII").leak();
        Self {
            digits,
            length,
            count,
        }
    }

    /// Just these keys, copied side by side, as if there were no others. The memory is never given back.
    ///
    /// # Panics
    ///
    /// Where they differ in length, or are not ASCII.
    #[must_use]
    pub fn of(chosen: &[Key]) -> Self {
        let length = chosen.first().map_or(0, |key| key.len());
        assert!(
            chosen
                .iter()
                .all(|key| key.len() == length && key.is_ascii()),
            "keys of one length"
        );
        Self {
            digits: chosen.concat().leak(),
            length,
            count: chosen.len(),
        }
    }

    /// How many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Key number `index`.
    ///
    /// # Panics
    ///
    /// Where there is no such key.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Key {
        assert!(index < self.count, "key {index} of {}", self.count);
        let from = index * self.length;
        // SAFETY: `digits` is `count * length` bytes long and ASCII throughout, so this range is inside it and begins
        // and ends between characters. The checked form would read the bytes at both ends, which are the very bytes
        // whose cache miss belongs to the design that hashes them.
        unsafe { self.digits.get_unchecked(from..from + self.length) }
    }

    /// All keys in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Key> + use<> {
        let keys = *self;
        (0..keys.count).map(move |index| keys.get(index))
    }

    /// The first `count` keys alone.
    ///
    /// # Panics
    ///
    /// Where there are fewer.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        assert!(count <= self.count, "{count} of {} keys", self.count);
        Self { count, ..*self }
    }
}

/// Two values of the same size: `old` is what the map is filled with, `new` what the operations write.
///
/// One shared value of each kind, so that a write stores a header and nothing is reference-counted; two kinds, so
/// that a lost write is seen afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// Stored for every key before the clock starts.
    pub old: Value,
    /// Stored by every write.
    pub new: Value,
}

impl Values {
    /// Two values of `size` bytes.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            old: "o".repeat(size).leak(),
            new: "n".repeat(size).leak(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_zero_padded_decimals() {
        let keys = Keys::new(1_234, 16);
        assert_eq!(keys.len(), 1_234);
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(key, format!("{index:016}"));
            assert_eq!(key, keys.get(index));
        }
    }

    #[test]
    fn numbered_keys_are_not_padded() {
        let keys = NumberedKeys::new(1_234);
        assert_eq!(keys.count(), 1_234);
        for index in 0..keys.count() {
            assert_eq!(keys.key(index), format!("key-{index}"));
        }
        assert_eq!(NumberedKeys::new(0).count(), 0);
    }

    #[test]
    fn some_keys_can_be_chosen() {
        let keys = Keys::new(100, 16);
        let chosen = Keys::of(&[keys.get(7), keys.get(70)]);
        assert_eq!(
            chosen.iter().collect::<Vec<_>>(),
            [keys.get(7), keys.get(70)]
        );
        assert!(Keys::of(&[]).is_empty());
        assert_eq!(keys.first(3).iter().last(), Some(keys.get(2)));
    }

    #[test]
    fn as_many_keys_as_the_length_allows() {
        assert_eq!(Keys::most(2), 100);
        assert_eq!(Keys::new(100, 2).iter().last(), Some("99"));
        assert_eq!(Keys::most(0), 1);
        assert_eq!(Keys::new(1, 0).get(0), "");
        assert!(std::panic::catch_unwind(|| Keys::new(101, 2)).is_err());
        assert!(std::panic::catch_unwind(|| Keys::new(10, 2).get(10)).is_err());
        assert_eq!(Keys::most(64), 1 << 31);
    }
}
