package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Block is what holds up the statements of this process although the server answers.
type Block struct {
	By BlockKind
	// Holder is the connection that holds the lock, for instance "connection 42
	// (app@10.0.0.7:5512), 120s"; empty if this user may not see it. For BlockServer
	// it is what the server reports.
	Holder string
	At     time.Time // when it was found, by this process's clock
}

// BlockKind is the kind of a block.
type BlockKind string

// The kinds of blocks.
const (
	BlockRow    BlockKind = "row"    // a transaction holds the row
	BlockTable  BlockKind = "table"  // LOCK TABLES, or a change of the table
	BlockBackup BlockKind = "backup" // FLUSH TABLES WITH READ LOCK, or a backup's lock
	BlockServer BlockKind = "server" // no client: the server itself waits, for free space on its disk or for a replica
)

// BlockKinds returns all kinds.
func BlockKinds() []BlockKind { return []BlockKind{BlockRow, BlockTable, BlockBackup, BlockServer} }

func (b Block) String() string {
	text := map[BlockKind]string{
		BlockRow:    "a transaction holds the row",
		BlockTable:  "another client has locked the table",
		BlockBackup: "a backup holds the global read lock (FLUSH TABLES WITH READ LOCK)",
		BlockServer: "no client: the server itself waits",
	}[b.By]
	if b.Holder != "" {
		text += ": " + b.Holder
	}
	return text
}

// The statements of a diagnosis.
var (
	diagnosisWaits  = statement("diagnosis/waits.sql")
	diagnosisOldest = statement("diagnosis/oldest.sql")
	diagnosisGlobal = statement("diagnosis/global.sql")
)

// MayBeBlocked reports whether an error of a statement may come from a block, so that
// Diagnose may find it.
func MayBeBlocked(err error) bool {
	return RefusedAs(err, errLockWait) || errors.Is(err, context.DeadlineExceeded)
}

// Diagnose looks for what the statements of this user wait for at the moment, or
// have just waited for in vain. The server keeps a statement that was given up until
// Options.LockWait has passed. cause is the error of such a statement. Diagnose
// returns false if nothing blocks them as far as this user can see. It changes what
// Blocked returns.
func (db *DB) Diagnose(ctx context.Context, cause error) (Block, bool) {
	block := Block{At: time.Now()}
	err := db.Query(ctx, diagnosisWaits, nil, func(scan func(...any) error) error {
		var state, info string
		if err := scan(&state, &info); err != nil {
			return err
		}
		if kind := kindOfWait(state, info); block.By == "" || block.By == BlockRow && kind != "" {
			if block.By = kind; kind == BlockServer {
				block.Holder = state
			}
		}
		return nil
	})
	if err == nil && block.By == "" && RefusedAs(cause, errLockWait) {
		block.By = BlockRow // nothing else ends a wait for a table any more
	}
	if err != nil || block.By == "" {
		db.blocks.Store(nil)
		return Block{}, false
	}
	switch block.By {
	case BlockRow:
		block.Holder = db.holder(ctx, diagnosisOldest)
	case BlockBackup:
		block.Holder = db.holder(ctx, diagnosisGlobal)
	}
	db.blocks.Store(&block)
	return block, true
}

// kindOfWait returns what a statement in this state waits for; empty if it does not
// wait. A wait for a row has no state of its own, but the statements of
// this package take far less than the deadline after which a diagnosis is made.
func kindOfWait(state, info string) BlockKind {
	state = strings.ToLower(state)
	switch {
	case strings.Contains(state, "global read lock"), strings.Contains(state, "backup lock"), strings.Contains(state, "commit lock"):
		return BlockBackup
	case strings.Contains(state, "metadata lock"), strings.Contains(state, "table level lock"), strings.Contains(state, "table flush"):
		return BlockTable
	case strings.HasPrefix(state, "waiting for "): // "someone to free space" (MariaDB), "disk space" (MySQL), "semi-sync ACK from replica"
		return BlockServer
	case strings.HasPrefix(strings.ToUpper(strings.TrimSpace(info)), "UPDATE"):
		return BlockRow
	}
	return ""
}

// holder returns a text about the connection that holds a lock, or an empty one if
// this user may not see it.
func (db *DB) holder(ctx context.Context, statement string) string {
	var id, seconds int64
	var user, host string
	if err := db.QueryRow(ctx, statement, nil, &id, &user, &host, &seconds); err != nil {
		return "" // no privilege, no such table, or it has ended
	}
	return fmt.Sprintf("connection %d (%s@%s), %ds", id, user, host, seconds)
}

// Unblocked records that a statement was executed after Blocked reported a block. It
// reports whether there was one.
func (db *DB) Unblocked() bool { return db.blocks.Load() != nil && db.blocks.Swap(nil) != nil }

// Blocked returns what the last Diagnose has found, until a statement is executed.
func (db *DB) Blocked() (Block, bool) {
	b := db.blocks.Load()
	if b == nil {
		return Block{}, false
	}
	return *b, true
}
