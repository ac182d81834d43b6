//! What the contract does not show of relations in CQL: clocks that are apart, nodes that die, buckets, feeds.
