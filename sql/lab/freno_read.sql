-- Who leads. How old that is, is not asked.
SELECT service_id FROM lab_freno WHERE domain = ?
