package hostile_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"

	"conclave/testbed"
)

// databaseConnections opens connections that do not log in. The newest of an address
// take the places of its oldest.
func databaseConnections(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 2500*time.Millisecond)
	defer end()
	beginnings := []string{"", "\x20", packet(200, 1, "\x85\xa6\x03"), packet(1<<24-2, 1, strings.Repeat("g", 1<<10))}
	var open []net.Conn
	for i := range 2000 {
		if c := dial(ctx, w.at[testbed.Database]); c != nil {
			_, _ = io.WriteString(c, beginnings[i%len(beginnings)])
			open = append(open, c)
		}
	}
	<-ctx.Done()
	closed := 0
	for _, c := range open {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // a connection cannot refuse it
		if _, err := io.Copy(io.Discard, c); err == nil || !isTimeout(err) {
			closed++
		}
		c.Close()
	}
	assert.GreaterOrEqual(t, closed, len(open)-256)
}

// databaseLogins sends garbage and packets of 16 MB in place of a login, and guesses
// passwords.
func databaseLogins(ctx context.Context, t *testing.T, w *target) {
	ctx, end := lasting(ctx, 1500*time.Millisecond)
	defer end()
	giant := strings.Repeat("g", 1<<20)
	each(12, func(i int) {
		for n := 0; ctx.Err() == nil; n++ {
			if n%3 == 0 {
				assert.Error(t, guess(ctx, w.at[testbed.Database], fmt.Sprint(i, "-", n)))
				continue
			}
			c := dial(ctx, w.at[testbed.Database])
			if c == nil {
				continue
			}
			_ = c.SetDeadline(time.Now().Add(time.Second))
			if n%3 == 1 {
				_, _ = io.WriteString(c, packet(32, 1, strings.Repeat("\xff", 32)))
			} else {
				_, err := io.WriteString(c, packet(1<<24-2, 1, giant))
				for m := 1; m < 16 && err == nil; m++ {
					_, err = io.WriteString(c, giant)
				}
			}
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	})
}

// guess logs in with a password.
func guess(ctx context.Context, address, password string) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.Timeout = "root", password, "tcp", address, time.Second
	cfg.DialFunc, cfg.Logger = dialer().DialContext, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return db.PingContext(ctx)
}

// packet returns a packet of MySQL's protocol that has a length, and this beginning.
func packet(length int, number byte, beginning string) string {
	return string([]byte{byte(length), byte(length >> 8), byte(length >> 16), number}) + beginning
}
