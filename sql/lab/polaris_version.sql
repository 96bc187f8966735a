-- The version from which who finds the leader dead swaps.
SELECT version FROM lab_polaris WHERE elect_key = ?
