-- How old the leader's last sign is: the difference of two times as if they were
-- numbers, 20261121230100 - 20261121230059, which is 41 and not 1. The original writes
-- it as the difference of two DATETIMEs, and MySQL makes these numbers of them; here
-- they are spelled out, because the embedded server subtracts times as times.
SELECT leader, CAST(DATE_FORMAT(NOW(), '%Y%m%d%H%i%s') AS SIGNED) - CAST(DATE_FORMAT(mtime, '%Y%m%d%H%i%s') AS SIGNED) AS age
FROM lab_polaris
WHERE elect_key = ?
