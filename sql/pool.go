package sql

import (
	stdsql "database/sql"
	"time"

	"github.com/go-sql-driver/mysql"
)

// What a pool of OpenPool allows each host for a connection, how long it tries a
// host last that could not be reached, and after how long it asks again which is
// the writer.
const (
	poolConnect  = 10 * time.Second
	poolRest     = 10 * time.Second
	poolLifetime = 10 * time.Second
)

// OpenPool returns a pool for a program's own statements. It reads the DSN as
// Open does: of several hosts, each connection is to the one that accepts writes.
// Otherwise the sessions are as the DSN and the server set them, and only the
// contexts of the statements limit them; where the driver interpolates
// parameters, texts are UTF-8. set, if it is not nil, changes the configuration
// of each host.
func OpenPool(dsn string, set func(*mysql.Config)) (*stdsql.DB, error) {
	configs, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	var texts []setting
	for _, config := range configs {
		config.Logger = quiet{}
		if set != nil {
			set(config)
		}
		if config.InterpolateParams {
			config.Collation, texts = "", utf8Texts
		}
	}
	c, err := newConnector(configs, poolRest)
	if err != nil {
		return nil, err
	}
	c.settings, c.known, c.limit = texts, &accepted{}, poolConnect
	pool := stdsql.OpenDB(c)
	if c.hosts != nil {
		pool.SetConnMaxLifetime(poolLifetime)
	}
	return pool, nil
}

// Hosts returns the network of a DSN, and its hosts as a Dial function gets them.
func Hosts(dsn string) (network string, hosts []string, err error) {
	configs, err := parseDSN(dsn)
	if err != nil {
		return "", nil, err
	}
	for _, config := range configs {
		hosts = append(hosts, config.Addr)
	}
	return configs[0].Net, hosts, nil
}
