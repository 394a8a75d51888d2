//! lang-mutex
