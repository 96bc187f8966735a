package sql

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// runtimeGrants are the privileges with which a meta works, as docs/databases.md
// has them; %d is the database and %u the user. Nothing is ever deleted.
var runtimeGrants = []string{
	"GRANT SELECT ON %d.schema_version TO %u",
	"GRANT SELECT, INSERT, UPDATE ON %d.distribute_lock TO %u",
	"GRANT SELECT, UPDATE ON %d.cluster_state TO %u",
	"GRANT SELECT, INSERT ON %d.election_history TO %u",
}

// groupGrant is needed in addition where the DSN names the members of a group.
const groupGrant = "GRANT SELECT ON performance_schema.replication_group_members TO %u"

// plainWord is what a name or a password of EnsureUser may have: nothing that a
// server could take for something else, whatever its modes.
var plainWord = regexp.MustCompile(`^[!#-&(-\[\]-_a-~]+$`)

// EnsureUser creates the user of a DSN, or gives it the DSN's password, and grants it
// what a meta needs. It is called after Migrate, because a privilege on a table needs
// the table. A user whose DSN uses TLS is refused by the server without it. It may be
// repeated, while the user is connected, too: it takes nothing away.
//
// The user of db needs CREATE USER, and these privileges WITH GRANT OPTION.
func (db *DB) EnsureUser(ctx context.Context, dsn string) error {
	users, err := parseDSN(dsn)
	if err != nil {
		return err
	}
	user, own := users[0], db.configs[0]
	switch {
	case user.DBName != own.DBName:
		return fmt.Errorf("%w: the user's database is %s, that of the migration %s", ErrBadDSN, user.DBName, own.DBName)
	case user.User == own.User:
		return fmt.Errorf("%w: want another user than that of the migration, %s", ErrBadDSN, user.User)
	}
	for _, word := range []string{user.User, user.Passwd, user.DBName} {
		if !plainWord.MatchString(word) {
			return fmt.Errorf("%w: want a user, a password and a database of printable ASCII characters without quotes and backslash", ErrBadDSN)
		}
	}
	conn, err := db.pinPatiently(ctx)
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	defer conn.Close()
	fill := userText(user.DBName, user.User, "%p", "'"+user.Passwd+"'", "%t", requires(user))
	statements := append([]string{
		"CREATE USER IF NOT EXISTS %u IDENTIFIED BY %p",
		"ALTER USER %u IDENTIFIED BY %p REQUIRE %t",
	}, runtimeGrants...)
	if db.Replication() == GroupReplication || len(users) > 1 && db.Replication() != Galera {
		statements = append(statements, groupGrant)
	}
	for _, statement := range statements {
		_, err := conn.Exec(ctx, fill.Replace(statement))
		if statement == groupGrant && db.Replication() != GroupReplication && missingTable(err) {
			continue // a MariaDB of the user's DSN, of which db knows one host
		}
		if err != nil {
			return fmt.Errorf("grant user %s what a meta needs: %w", user.User, err)
		}
	}
	return nil
}

// userText fills in the statements of one user.
func userText(database, user string, more ...string) *strings.Replacer {
	return strings.NewReplacer(append([]string{"%d", "`" + database + "`", "%u", "'" + user + "'@'%'"}, more...)...)
}

// requires returns what the server is to require of a user's connections.
func requires(user *mysql.Config) string {
	switch user.TLSConfig {
	case "", "false", "preferred":
		if user.TLS == nil || user.AllowFallbackToPlaintext {
			return "NONE"
		}
	}
	return "SSL"
}
