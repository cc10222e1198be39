"""What `dfsharding2` does with resolved chains: results stay in L1 where that fits and pays."""
