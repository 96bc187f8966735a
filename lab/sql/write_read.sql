-- The counters.
SELECT newest, writes, stale, fenced, fenced_stale FROM lab_write WHERE lab = ?
