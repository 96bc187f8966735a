-- Create the lease. It fails if there is one.
INSERT INTO lab_lease (name, holder, lease_ms, transitions, version) VALUES (?, ?, ?, 0, 1)
