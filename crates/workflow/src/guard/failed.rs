//! Why an evaluation gave no value.

/// Why an expression gave no value, in words for the journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// A map has no such key; the key is told with the path that leads to it, if that is known.
    #[error("there is no `{}`", key.escape_debug())]
    MissingKey {
        /// The key, or the path to it.
        key: String,
    },
    /// A list has no such item.
    #[error("there is no item {index} in the list")]
    MissingItem {
        /// The index that was asked for.
        index: String,
    },
    /// An operation was given kinds of values that it does not take.
    #[error("`{operation}` does not take {found}")]
    WrongTypes {
        /// The operator or function.
        operation: String,
        /// The kinds of values that it was given.
        found: String,
    },
    /// A number is too large for its kind, was divided by zero, or cannot be ordered.
    #[error("`{operation}` has no result for these numbers")]
    Arithmetic {
        /// The operator.
        operation: &'static str,
    },
    /// A value cannot be turned into the kind that was asked for.
    #[error("`{function}` cannot convert this {found}")]
    Conversion {
        /// The function.
        function: &'static str,
        /// The kind of the value.
        found: &'static str,
    },
    /// The evaluation took more steps than it may.
    #[error("the expression takes too many steps")]
    OutOfFuel,
    /// A value nests too deep, or the result is too large.
    #[error("the value is too large or nests too deep")]
    TooLarge,
    /// A condition was asked for, and the result is something else.
    #[error("the result is {found}, not true or false")]
    NotBool {
        /// The kind of the result.
        found: &'static str,
    },
    /// The result is a number that JSON has no way to write.
    #[error("the result is not a number that JSON can hold")]
    NotJson,
    /// It is a function in Rust, which panicked.
    #[error("the function panicked")]
    Panicked,
}

impl Failed {
    /// Whether the whole evaluation ends here: `||` and `&&` do not absorb a limit.
    pub(super) fn is_limit(&self) -> bool {
        match self {
            Self::OutOfFuel | Self::TooLarge => true,
            Self::MissingKey { .. }
            | Self::MissingItem { .. }
            | Self::WrongTypes { .. }
            | Self::Arithmetic { .. }
            | Self::Conversion { .. }
            | Self::NotBool { .. }
            | Self::NotJson
            | Self::Panicked => false,
        }
    }
}
