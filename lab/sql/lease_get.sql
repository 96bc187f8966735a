-- Read the lease.
SELECT holder, lease_ms, transitions, version FROM lab_lease WHERE name = ?
