//! A quick hash for tables that only the author of a workflow fills.
//!
//! Whoever calls can only look things up in them, so nobody can make them slow by choosing names.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A table that is looked into with every call.
pub(crate) type Table<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies what it is given into what it has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quick(u64);

impl Quick {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        // Both halves count, for a table looks at the low and at the high bits.
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(u64::from_le_bytes(
                word.try_into().expect("it has eight bytes"),
            ));
        }
        let rest = words.remainder();
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(word) ^ ((rest.len() as u64) << 56));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(byte.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, hash::BuildHasher};

    #[test]
    fn names_and_numbers_that_differ_hardly_ever_meet() {
        let build = BuildHasherDefault::<Quick>::default();
        let names = (0..10_000).map(|number| build.hash_one(format!("state_{number:05}")));
        let pairs = (0..100_u32).flat_map(|a| (0..100_u32).map(move |b| (a, b)));
        let pairs = pairs.map(|pair| build.hash_one(pair));
        for hashes in [names.collect::<Vec<_>>(), pairs.collect()] {
            for bits in [|hash: u64| hash & 0xffff, |hash: u64| hash >> 48] {
                let places: HashSet<u64> = hashes.iter().map(|hash| bits(*hash)).collect();
                // Ten thousand balls thrown into 65,536 boxes hit about 9,300 of them.
                assert!(places.len() > 9_000, "{}", places.len());
            }
        }
        assert_ne!(build.hash_one("a"), build.hash_one("a\0"));
    }
}
