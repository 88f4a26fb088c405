//! ARM as its clients see it, from records of the real one.
