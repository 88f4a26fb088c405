//! The desk against ARM's real bucket, under any order of crashes, partitions, delays and losses.

mod model;
mod rules;
