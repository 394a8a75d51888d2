//! What the verbs of a wait are asked and answer.

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// A reply was written, by the token of this branch.
    Answered(u16),
    /// Its time was up.
    Deadline,
    /// Its timeline is to unwind.
    Cancelled,
    /// The last one that could have answered dropped its token.
    Abandoned,
    /// The environment it waited in broke.
    Broken,
}

/// Why a claim or a forward failed. The caller keeps its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    /// The wait has ended, or belongs to another token now. Its node may be forgotten.
    Gone,
    /// The timeline is looking at its branches just now and will look at this one again. Its node stays linked.
    Missed,
}

/// What came of ending a wait without a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "only a winner makes the timeline ready"]
pub(crate) enum EndResult {
    /// It is over, by this call.
    Won,
    /// It was over before, or belongs to another token.
    Lost,
    /// Somebody has it in hand just now and will see the note.
    Noted,
}

/// Who asks for the end from outside of the tokens: the home core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupt {
    /// The wait's deadline has passed.
    Deadline,
    /// The timeline is cancelled.
    Cancel,
}

/// What the home core holds while it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holding {
    /// No lock.
    Nothing,
    /// The lock of the environment in whose queue the wait is.
    Queue,
}

/// What came of an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "only a winner makes the timeline ready"]
pub(crate) enum Interrupted {
    /// It is over, by this call.
    Won,
    /// It was over before, or is just being answered.
    Lost,
    /// It is being forwarded or armed; who does that gets the note and ends it, or asks for this again.
    Noted,
    /// It is in a queue: lock that environment, see that the wait is still in it, and ask again.
    LockFirst,
}

/// What came while a wait could not be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use = "a note that nobody carries out is a lost deadline or cancel"]
pub(crate) struct Notes {
    /// The deadline has passed.
    pub(crate) deadline: bool,
    /// The timeline is to be cancelled.
    pub(crate) cancel: bool,
    /// A branch may be ready: look at all of them again.
    pub(crate) missed: bool,
}

impl Notes {
    /// Whether nothing came.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Where a wait goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Into one queue, whose lock the caller holds.
    Queued,
    /// To the holder of a token.
    Free,
}
