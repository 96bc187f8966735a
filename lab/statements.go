package lab

import (
	"embed"

	conclavesql "conclave/sql"
)

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

var (
	dolphinAcquireSQL     = conclavesql.Statement(files, "sql/dolphin_acquire.sql")
	dolphinBeatSQL        = conclavesql.Statement(files, "sql/dolphin_beat.sql")
	dolphinClientTableSQL = conclavesql.Statement(files, "sql/dolphin_client_table.sql")
	dolphinClientsSQL     = conclavesql.Statement(files, "sql/dolphin_clients.sql")
	dolphinForgetSQL      = conclavesql.Statement(files, "sql/dolphin_forget.sql")
	dolphinHolderSQL      = conclavesql.Statement(files, "sql/dolphin_holder.sql")
	dolphinLockTableSQL   = conclavesql.Statement(files, "sql/dolphin_lock_table.sql")
	dolphinRegisterSQL    = conclavesql.Statement(files, "sql/dolphin_register.sql")
	dolphinReleaseSQL     = conclavesql.Statement(files, "sql/dolphin_release.sql")
	frenoAttemptSQL       = conclavesql.Statement(files, "sql/freno_attempt.sql")
	frenoReadSQL          = conclavesql.Statement(files, "sql/freno_read.sql")
	frenoReelectSQL       = conclavesql.Statement(files, "sql/freno_reelect.sql")
	frenoTableSQL         = conclavesql.Statement(files, "sql/freno_table.sql")
	leadershipBeginSQL    = conclavesql.Statement(files, "sql/leadership_begin.sql")
	leadershipNumberSQL   = conclavesql.Statement(files, "sql/leadership_number.sql")
	leadershipTableSQL    = conclavesql.Statement(files, "sql/leadership_table.sql")
	leaseCreateSQL        = conclavesql.Statement(files, "sql/lease_create.sql")
	leaseGetSQL           = conclavesql.Statement(files, "sql/lease_get.sql")
	leaseTableSQL         = conclavesql.Statement(files, "sql/lease_table.sql")
	leaseUpdateSQL        = conclavesql.Statement(files, "sql/lease_update.sql")
	polarisCheckSQL       = conclavesql.Statement(files, "sql/polaris_check.sql")
	polarisSeedSQL        = conclavesql.Statement(files, "sql/polaris_seed.sql")
	polarisSwapSQL        = conclavesql.Statement(files, "sql/polaris_swap.sql")
	polarisTableSQL       = conclavesql.Statement(files, "sql/polaris_table.sql")
	polarisVersionSQL     = conclavesql.Statement(files, "sql/polaris_version.sql")
	riverElectSQL         = conclavesql.Statement(files, "sql/river_elect.sql")
	riverExpireSQL        = conclavesql.Statement(files, "sql/river_expire.sql")
	riverReelectSQL       = conclavesql.Statement(files, "sql/river_reelect.sql")
	riverResignSQL        = conclavesql.Statement(files, "sql/river_resign.sql")
	riverTableSQL         = conclavesql.Statement(files, "sql/river_table.sql")
	riverTermSQL          = conclavesql.Statement(files, "sql/river_term.sql")
	rowFreeSQL            = conclavesql.Statement(files, "sql/row_free.sql")
	writeSQL              = conclavesql.Statement(files, "sql/write.sql")
	writeFencedSQL        = conclavesql.Statement(files, "sql/write_fenced.sql")
	writeReadSQL          = conclavesql.Statement(files, "sql/write_read.sql")
	writeSeedSQL          = conclavesql.Statement(files, "sql/write_seed.sql")
	writeTableSQL         = conclavesql.Statement(files, "sql/write_table.sql")
	writeVersionSQL       = conclavesql.Statement(files, "sql/write_version.sql")
)
