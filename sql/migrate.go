package sql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Lock names the row that elects: one cluster, or one leader of a user's own.
type Lock struct {
	DataCenter string // at most 128 printable ASCII characters
	Name       string // at most 1024 printable ASCII characters
}

// The original's names, used when none are given.
const (
	DefaultDataCenter = "DefaultDataCenter"
	DefaultLockName   = "META-MASTER"
)

// DefaultLock is the lock of a cluster that names nothing else.
func DefaultLock() Lock { return Lock{DefaultDataCenter, DefaultLockName} }

// Validate says which of the two names cannot be stored.
func (l Lock) Validate() error {
	for _, part := range []struct {
		what, value string
		limit       int
	}{{"data center", l.DataCenter, 128}, {"lock name", l.Name, 1024}} {
		if part.value == "" || len(part.value) > part.limit {
			return fmt.Errorf("%s %q: want 1 to %d characters", part.what, part.value, part.limit)
		}
		for _, c := range part.value {
			if c < ' ' || c > '~' {
				return fmt.Errorf("%s %q: want printable ASCII", part.what, part.value)
			}
		}
	}
	return nil
}

func (l Lock) String() string { return l.DataCenter + "/" + l.Name }

// SchemaVersion is the newest version that this program knows.
func SchemaVersion() int {
	files := migrations()
	return files[len(files)-1].version
}

type migration struct {
	version int
	path    string
}

// migrations lists the schema files in their order; file 000 makes the table that
// counts the others.
func migrations() []migration {
	names, err := fs.Glob(files, "schema/0*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	var list []migration
	for _, name := range names { // Glob sorts
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("schema file %s has no number", name))
		}
		list = append(list, migration{version, name})
	}
	return list
}

// MigrateTry is for how long a program lets one Migrate try. A database that accepts
// and says nothing (a frozen mysqld, a proxy with nobody behind it) would hold it for
// ever; what is cut off in the middle of its work goes on where it was, since every
// step changes nothing when it has been done.
const MigrateTry = 5 * time.Second

// Migrate brings the schema to SchemaVersion and makes sure that the lock has its
// row (term 0, no owner) and each kind of state its own. Any number of processes
// may do it at once, and again: every step changes nothing when it has been done.
// A schema written by a newer program is refused with ErrSchemaNewer before
// anything is touched. A program that runs while a newer one migrates is not asked: it
// goes on, and is refused when it starts again.
func (db *DB) Migrate(ctx context.Context, lock Lock) error {
	if err := lock.Validate(); err != nil {
		return err
	}
	// Tables are created on a connection of its own: that takes longer than half a
	// beat on a slow disk, and its only deadline is the caller's.
	conn, err := db.Pin(ctx, nil)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer conn.Close()

	have, err := schemaVersion(ctx, conn)
	if err != nil {
		return fmt.Errorf("migrate: read the schema's version: %w", err)
	}
	if want := SchemaVersion(); have > want {
		return fmt.Errorf("%w: the database has version %d, this program knows %d", ErrSchemaNewer, have, want)
	} else if have < want {
		if err := db.apply(ctx, conn, want); err != nil {
			return err
		}
	}
	return seed(ctx, conn, lock)
}

// schemaVersion is -1 when nobody has migrated here.
func schemaVersion(ctx context.Context, conn Querier) (int, error) {
	var version int
	err := conn.QueryRow(ctx, schemaRead, nil, &version)
	if errors.Is(err, ErrNoRows) || missingTable(err) {
		return -1, nil
	}
	return version, err
}

// apply runs every schema file: those that were applied before change nothing.
func (db *DB) apply(ctx context.Context, conn *Pinned, want int) error {
	for _, m := range migrations() {
		if err := reshape(ctx, conn, statement(m.path)); err != nil {
			return fmt.Errorf("migrate: apply %s: %w", m.path, err)
		}
	}
	if _, err := conn.Exec(ctx, schemaSeed); err != nil {
		return fmt.Errorf("migrate: record the schema's version: %w", err)
	}
	if _, err := conn.Exec(ctx, schemaSet, want, want); err != nil {
		return fmt.Errorf("migrate: record the schema's version: %w", err)
	}
	return nil
}

// seedLease is the lease of a row that nobody has led; it is never waited for.
const seedLease = 3 * time.Second

// seed gives the lock its row and its kinds of state theirs.
func seed(ctx context.Context, conn Execer, lock Lock) error {
	if _, err := conn.Exec(ctx, LockSeed, lock.DataCenter, lock.Name, seedLease.Milliseconds()); err != nil {
		return fmt.Errorf("migrate: seed lock %s: %w", lock, err)
	}
	for _, kind := range Kinds() {
		if _, err := conn.Exec(ctx, StateSeed, lock.DataCenter, lock.Name, string(kind)); err != nil {
			return fmt.Errorf("migrate: seed state %s: %w", kind, err)
		}
	}
	return nil
}
