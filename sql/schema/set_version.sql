-- Record the version that has been applied. The predicates:
--   id                       the only row.
--   version <                it only rises: an older process that starts late
--                            must not hide that a newer one was here.
UPDATE schema_version SET version = ?, gmt_modified = UTC_TIMESTAMP(3) WHERE id = 1 AND version < ?
