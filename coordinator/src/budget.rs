//! The ledger of ARM's rate limits: what each bucket holds and who was granted what.
