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

	"github.com/go-sql-driver/mysql"
)

// Lock names the row of an election: that of a cluster, or of an application's
// own leader.
type Lock struct {
	DataCenter string // what the lock belongs to, such as a product; at most 128 printable ASCII characters
	Name       string // at most 1024 printable ASCII characters
}

// The original's names, used by default.
const (
	DefaultDataCenter = "DefaultDataCenter"
	DefaultLockName   = "META-MASTER"
)

// DefaultLock returns the lock with the default names.
func DefaultLock() Lock { return Lock{DefaultDataCenter, DefaultLockName} }

// Validate returns an error if one of the names cannot be stored.
func (l Lock) Validate() error {
	for _, part := range []struct {
		what, value string
		limit       int
	}{{"data center", l.DataCenter, 128}, {"lock name", l.Name, 1024}} {
		if err := ValidateName(part.what, part.value, part.limit); err != nil {
			return err
		}
	}
	return nil
}

// ValidateName returns an error that begins with what if a name is empty, has
// more than limit characters, or is not printable ASCII.
func ValidateName(what, name string, limit int) error {
	if name == "" || len(name) > limit {
		return fmt.Errorf("%s %q: want 1 to %d characters", what, name, limit)
	}
	for _, c := range name {
		if c < ' ' || c > '~' {
			return fmt.Errorf("%s %q: want printable ASCII", what, name)
		}
	}
	return nil
}

func (l Lock) String() string { return l.DataCenter + "/" + l.Name }

// SchemaVersion returns the newest version that this program knows.
func SchemaVersion() int {
	files := migrations()
	return files[len(files)-1].version
}

type migration struct {
	version int
	path    string
}

// migrations returns the schema files in their order. File 000 creates the
// table that records the version.
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

// MigrateTry is the timeout of one attempt to migrate. A database that accepts
// connections and never answers (a frozen mysqld, a proxy without a server)
// would block Migrate forever. An attempt that is interrupted can be repeated,
// since every step has no effect if it has already been done.
const MigrateTry = 5 * time.Second

// Migrate brings the schema to SchemaVersion and makes sure that the rows of
// the lock (term 0, no owner) and of each kind of state exist. Any number of
// processes may call it at once and repeatedly: a step has no effect if it has
// already been done.
//
// If the schema was written by a newer program, Migrate returns ErrSchemaNewer
// and changes nothing. A running program is not affected when a newer one
// migrates; it is refused when it next starts.
func (db *DB) Migrate(ctx context.Context, lock Lock) error {
	if err := lock.Validate(); err != nil {
		return err
	}
	// Tables are created on a pinned connection, because that may take longer
	// than half a beat on a slow disk. The only deadline is the caller's.
	conn, err := db.pinPatiently(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer conn.Close()

	have, err := db.schemaVersion(ctx, conn)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	err = onInnoDB(ctx, conn)
	if want := SchemaVersion(); have < want || errors.Is(err, ErrSchemaOlder) {
		if err := db.apply(ctx, conn, want); err != nil {
			return err
		}
		err = onInnoDB(ctx, conn)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return seed(ctx, conn, lock)
}

// schemaTables is how many tables the schema has.
const schemaTables = 4

// onInnoDB returns ErrSchemaOlder if a table is missing, which was dropped if
// the version is right, and an error if one has another engine: those that were created
// by an older program, or by hand, have the server's default.
func onInnoDB(ctx context.Context, conn Querier) error {
	var tables int
	var other string
	if err := conn.QueryRow(ctx, schemaEngines, nil, &tables, &other); err != nil {
		return fmt.Errorf("read the engines of the tables: %w", err)
	}
	switch {
	case other != "":
		return fmt.Errorf("table %s, want InnoDB: change it with ALTER TABLE ... ENGINE=InnoDB", other)
	case tables < schemaTables:
		return fmt.Errorf("%w: it has %d of %d tables", ErrSchemaOlder, tables, schemaTables)
	}
	return nil
}

// Check returns nil if Migrate has nothing to do, ErrSchemaOlder if it has, and
// ErrSchemaNewer as Migrate does. It only reads, so that a process needs no right to
// create or change tables; docs/databases.md has the privileges of both.
func (db *DB) Check(ctx context.Context, lock Lock) error {
	if err := lock.Validate(); err != nil {
		return err
	}
	conn, err := db.pinPatiently(ctx)
	if err != nil {
		return fmt.Errorf("check the schema: %w", err)
	}
	defer conn.Close()
	have, err := db.schemaVersion(ctx, conn)
	switch {
	case RefusedAs(err, errTableDenied): // a user without rights on the database learns no more of a missing table
		return fmt.Errorf("%w, or this user may not read it: %w", ErrSchemaOlder, err)
	case err != nil:
		return fmt.Errorf("check the schema: %w", err)
	}
	if want := SchemaVersion(); have < want {
		if have < 0 {
			return fmt.Errorf("%w: it has no schema", ErrSchemaOlder)
		}
		return fmt.Errorf("%w: it has version %d, this program needs %d", ErrSchemaOlder, have, want)
	}
	if err := onInnoDB(ctx, conn); err != nil {
		return fmt.Errorf("check the schema: %w", err)
	}
	var rows int
	if err := conn.QueryRow(ctx, schemaRows, []any{lock.DataCenter, lock.Name, lock.DataCenter, lock.Name}, &rows); err != nil {
		return fmt.Errorf("check the schema: %w", err)
	}
	if want := 1 + len(Kinds()); rows < want {
		return fmt.Errorf("%w: it has %d of %d rows for the lock %s", ErrSchemaOlder, rows, want, lock)
	}
	return nil
}

// schemaVersion returns the version of the schema, or -1 if the database has
// not been migrated, and ErrSchemaNewer if this program does not know it.
func (db *DB) schemaVersion(ctx context.Context, conn Querier) (int, error) {
	var version int
	began := time.Now()
	err := conn.QueryRow(ctx, schemaRead, nil, &version)
	db.trips.add(time.Since(began)) // known even where the statements of the pool would be too late
	switch {
	case errors.Is(err, ErrNoRows) || missingTable(err):
		return -1, nil
	case err != nil:
		return 0, fmt.Errorf("read the schema's version: %w", err)
	case version > SchemaVersion():
		return 0, fmt.Errorf("%w: the database has version %d, this program knows %d", ErrSchemaNewer, version, SchemaVersion())
	}
	return version, nil
}

// apply runs every schema file. Those that were applied before have no effect.
func (db *DB) apply(ctx context.Context, conn *Pinned, want int) error {
	for _, m := range migrations() {
		if err := alterTable(ctx, conn, statement(m.path)); err != nil {
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

// seedLease is the lease in a row that has had no leader; no candidate waits
// for it.
const seedLease = 3 * time.Second

// seed creates the rows of the lock and of its kinds of state.
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

// MigrateWithin is Migrate at the start of a process: it waits for a database
// that cannot be reached, and calls waiting with the reason, at first and every
// 5 s. The error is ErrUnavailable if the database was not there within the
// limit, that of ctx, or that of Migrate.
func (db *DB) MigrateWithin(ctx context.Context, lock Lock, limit time.Duration, waiting func(time.Duration, error)) error {
	return within(ctx, limit, waiting, func(ctx context.Context) error { return db.Migrate(ctx, lock) })
}

// CheckWithin is Check at the start of a process, and waits as MigrateWithin does.
func (db *DB) CheckWithin(ctx context.Context, lock Lock, limit time.Duration, waiting func(time.Duration, error)) error {
	return within(ctx, limit, waiting, func(ctx context.Context) error { return db.Check(ctx, lock) })
}

// within repeats an attempt until the database is there.
func within(ctx context.Context, limit time.Duration, waiting func(time.Duration, error), attempt func(context.Context) error) error {
	began, logged := time.Now(), time.Time{}
	for {
		try, cancel := context.WithTimeout(ctx, min(max(limit-time.Since(began), time.Second), MigrateTry))
		err := attempt(try)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, ErrUnavailable) || time.Since(began) >= limit:
			return err
		}
		if time.Since(logged) >= 5*time.Second {
			logged = time.Now()
			waiting(time.Since(began).Round(time.Second), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(100*time.Millisecond, limit/10+time.Millisecond)):
		}
	}
}

// Create runs statements that create tables, on a connection of their own: on a
// slow disk that may take longer than the deadline of Options, so that only ctx
// bounds it. Tables that are created on demand are not part of the schema of
// Migrate: a cluster does not need them, and with a schema version of their own
// every older program would refuse the database.
func (db *DB) Create(ctx context.Context, statements ...string) error {
	conn, err := db.pinPatiently(ctx)
	if err != nil {
		return fmt.Errorf("create a table: %w", err)
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create a table: %w", err)
		}
	}
	return nil
}

// alterPause is the pause between two attempts to change a table, in which
// other statements can run.
const alterPause = 200 * time.Millisecond

// alterTable runs a statement that creates or changes a table. The statement
// needs the table exclusively for a moment. While it waits for that, all other
// statements wait behind it, even a leader's renewal, so an idle open
// transaction could depose the leader. Therefore each attempt waits at most one
// second (the shortest timeout there is), lets the other statements pass, and
// is repeated until ctx ends.
func alterTable(ctx context.Context, conn *Pinned, change string) error {
	var refused *mysql.MySQLError
	if _, err := conn.Exec(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil && !errors.As(err, &refused) {
		return err
	}
	for {
		_, err := conn.Exec(ctx, change)
		if !RefusedAs(err, errLockWait) {
			return err
		}
		pause := time.NewTimer(alterPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w: the table is in use: %w", ErrUnavailable, err)
		}
	}
}
