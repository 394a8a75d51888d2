//! Tasks: two faces of one language. *Fork-join*, where work is cut in pieces that a free core may take, at nearly the price of a call; and
//! *dataflow*, where tasks say what they read and write, and run in any order that gives the result of the sequential program.

#![forbid(unsafe_code)]
