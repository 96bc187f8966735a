-- The age of the leader's last sign of life, computed as the difference of two
-- times as if they were numbers: 20261121230100 - 20261121230059 is 41, not 1.
-- The original has the difference of two DATETIMEs, which MySQL converts to
-- these numbers; here the conversion is explicit, because the embedded server
-- subtracts them as times.
SELECT leader, CAST(DATE_FORMAT(NOW(), '%Y%m%d%H%i%s') AS SIGNED) - CAST(DATE_FORMAT(mtime, '%Y%m%d%H%i%s') AS SIGNED) AS age
FROM lab_polaris
WHERE elect_key = ?
