-- The version that a node expects in its swap when it finds the leader dead.
SELECT version FROM lab_polaris WHERE elect_key = ?
