//! What tasks read and write.

use std::ops::{Bound, Range, RangeBounds};

use proto_core::{Claimed, Guarded, Keeper, Keyed, Lanes};

use super::TaskError;

/// All of a datum.
pub(super) const WHOLE: Range<usize> = Lanes::<TaskError>::WHOLE;

/// A value that tasks of a [`dataflow`](super::dataflow) read and write.
///
/// Only tasks that have declared it reach it, and only in an order that gives what the program would give if each task ran where it is made.
/// Made outside of the dataflow, and borrowed by its tasks; whoever owns it has the value before and after.
///
/// One dataflow has it at a time, from the first task that declares it to the dataflow's end.
///
/// # Examples
///
/// ```
/// use proto_lang_tasks::{Data, dataflow};
///
/// let (x, y) = (Data::new(1), Data::new(String::new()));
/// dataflow(|df| {
///     df.task().inout(&x).run(|x| *x += 1);
///     df.task().input(&x).output(&y).run(|x, y| *y = x.to_string());
///     df.task().output(&x).run(|x| *x = 7);
/// });
/// assert_eq!((x.into_inner(), y.into_inner()), (7, "2".to_owned()));
/// ```
///
/// Parts of a slice, which may overlap:
///
/// ```
/// use proto_lang_tasks::{Data, dataflow};
///
/// let cells: Data<[u32]> = Data::from(vec![1; 8]);
/// dataflow(|df| {
///     df.task().inout(cells.range(..5)).run(|left| left.iter_mut().for_each(|x| *x += 1));
///     df.task().inout(cells.range(3..)).run(|right| right.iter_mut().for_each(|x| *x *= 10));
/// });
/// assert_eq!(*cells.into_boxed_slice(), [2, 2, 2, 20, 20, 10, 10, 10]);
/// ```
///
/// It does not end before the dataflow that uses it:
///
/// ```compile_fail,E0597
/// use proto_lang_tasks::{Data, dataflow};
/// dataflow(|df| {
///     let x = Data::new(1);
///     df.task().inout(&x).run(|x| *x += 1);
/// });
/// ```
///
/// What several tasks may read at once has to be `Sync`:
///
/// ```compile_fail,E0277
/// use proto_lang_tasks::{Data, dataflow};
/// let x = Data::new(std::cell::Cell::new(1));
/// dataflow(|df| {
///     df.task().input(&x).run(|x| x.set(2));
/// });
/// ```
// Lines of memory of its own: data that lie side by side are touched by different cores.
#[repr(align(64))]
pub struct Data<T: ?Sized> {
    chain: Keyed<Chain>,
    value: Box<Guarded<T>>,
}

/// What a graph knows of a datum.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) lanes: Lanes<TaskError>,
    pub(super) keeper: Keeper,
    /// Tasks that are ready but for the datum, which another one has: commutative ones, and those that are to be combined.
    #[expect(clippy::box_collection, reason = "one word in every datum instead of three")]
    pub(super) blocked: Option<Box<Vec<u32>>>,
}

impl<T: ?Sized> Data<T> {
    fn with(value: Box<Guarded<T>>, keeper: Keeper) -> Data<T> {
        Data { chain: Keyed::new(Chain { lanes: Lanes::new(), keeper, blocked: None }), value }
    }

    /// The value. Nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Why the value is not what the tasks should have made of it: one that was to write it panicked, or was not run.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let mut x = Data::new(1);
    /// let told = dataflow(|df| {
    ///     df.task().inout(&x).run(|_| panic!("on purpose"));
    ///     df.try_taskwait().is_err()
    /// });
    /// assert!(told && x.poison().is_some());
    /// x.clear_poison();
    /// dataflow(|df| drop(df.task().inout(&x).run(|x| *x += 1)));
    /// assert_eq!(x.into_inner(), 2);
    /// ```
    pub fn poison(&mut self) -> Option<TaskError> {
        self.chain.get_mut().lanes.mark(&WHOLE).cloned()
    }

    /// Takes the value as it is for good.
    pub fn clear_poison(&mut self) {
        self.chain.get_mut().lanes.set_mark(&WHOLE, None);
    }
}

impl<T> Data<T> {
    /// Makes one.
    pub fn new(value: T) -> Data<T> {
        Data::with(Box::new(Guarded::new(value)), Keeper::whole())
    }

    pub(super) fn whole(&self) -> Place<'_, T> {
        Place { chain: &self.chain, cell: &self.value, range: WHOLE }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Data<[T]> {
    /// A part of the slice, to be declared by a task: `range(..)` is all of it. Tasks whose parts do not overlap may run at once.
    ///
    /// # Panics
    ///
    /// If the range ends before it starts, or after the slice's end.
    #[track_caller]
    pub fn range(&self, range: impl RangeBounds<usize>) -> Part<'_, T> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        assert!(start <= end && end <= self.len(), "{start}..{end} is not a part of 0..{}", self.len());
        Part { data: self, range: start..end }
    }

    /// The slice in parts of `size` elements; the last may have fewer.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use proto_lang_tasks::{Data, dataflow};
    ///
    /// let cells: Data<[u32]> = Data::from(vec![0; 10]);
    /// dataflow(|df| {
    ///     for (number, tile) in cells.tiles(4).enumerate() {
    ///         df.task().output(tile).run(move |tile| tile.fill(number as u32));
    ///     }
    /// });
    /// assert_eq!(*cells.into_boxed_slice(), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
    /// ```
    #[track_caller]
    pub fn tiles(&self, size: usize) -> impl ExactSizeIterator<Item = Part<'_, T>> {
        assert!(size > 0, "a tile has at least one element");
        (0..self.len().div_ceil(size)).map(move |tile| self.range(tile * size..self.len().min((tile + 1) * size)))
    }

    /// How many elements the slice has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.value.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values.
    #[must_use]
    pub fn into_boxed_slice(self) -> Box<[T]> {
        self.value.into_boxed_slice()
    }
}

impl<T> From<Vec<T>> for Data<[T]> {
    fn from(elements: Vec<T>) -> Self {
        Data::with(elements.into(), Keeper::ranges())
    }
}

impl<T> From<T> for Data<T> {
    fn from(value: T) -> Self {
        Data::new(value)
    }
}

impl<T: Default> Default for Data<T> {
    fn default() -> Self {
        Data::new(T::default())
    }
}

/// A part of a slice; see [`Data::range`].
pub struct Part<'env, T> {
    data: &'env Data<[T]>,
    range: Range<usize>,
}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        Part { data: self.data, range: self.range.clone() }
    }
}

/// What a task may declare: `&Data<T>`, or a [`Part`] of a slice.
pub trait Target<'env>: sealed::Target<'env, Value: Claimed + Send + 'env> {}
impl<'env, P: sealed::Target<'env, Value: Claimed + Send + 'env>> Target<'env> for P {}

/// What several tasks may have at once.
pub trait SharedTarget<'env>: Target<'env, Value: Sync> {}
impl<'env, P: Target<'env, Value: Sync>> SharedTarget<'env> for P {}

/// Where what is declared lies, and what the graph knows of it.
pub(super) struct Place<'env, V: ?Sized> {
    pub(super) chain: &'env Keyed<Chain>,
    pub(super) cell: &'env Guarded<V>,
    pub(super) range: Range<usize>,
}

pub(super) mod sealed {
    use super::Place;

    pub trait Target<'env> {
        type Value: ?Sized;
        #[expect(private_interfaces, reason = "it is sealed")]
        fn place(self) -> Place<'env, Self::Value>;
    }
}

#[expect(private_interfaces, reason = "it is sealed")]
impl<'env, T> sealed::Target<'env> for &'env Data<T> {
    type Value = T;

    fn place(self) -> Place<'env, T> {
        self.whole()
    }
}

#[expect(private_interfaces, reason = "it is sealed")]
impl<'env, T> sealed::Target<'env> for Part<'env, T> {
    type Value = [T];

    fn place(self) -> Place<'env, [T]> {
        Place { chain: &self.data.chain, cell: &self.data.value, range: self.range }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_datum_is_two_lines_of_memory() {
        assert_eq!(size_of::<super::Data<[u8]>>(), 128);
    }
}
