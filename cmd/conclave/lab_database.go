package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"time"

	conclavesql "conclave/sql"
	"conclave/testbed/local/supervisor"
)

// errLabInterrupted is the error of a run whose context has ended.
var errLabInterrupted = errors.New("interrupted")

// labDatabase checks the flags of both labs: the DSN, and whether ZooKeeper can be
// reached. Then it returns the database of --db: an existing server, or an embedded one
// that it starts. name is its name in reports, empty for an existing server.
func (a *app) labDatabase(ctx context.Context, db, zookeeper string) (dsn, name string, end func() error, err error) {
	if err := checkDatabase(db); err != nil {
		return "", "", nil, err
	}
	if zookeeper != "" {
		if err := checkAddresses("--zookeeper", zookeeper); err != nil {
			return "", "", nil, err
		}
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", zookeeper) // its client tries again and again and does not report why
		if err != nil {
			return "", "", nil, fmt.Errorf("--zookeeper: %w", err)
		}
		conn.Close()
	}
	if db != supervisor.Embedded {
		return db, "", func() error { return nil }, nil
	}
	path, args, err := devdbProgram()
	if err != nil {
		return "", "", nil, err
	}
	server := exec.CommandContext(context.WithoutCancel(ctx), path, append(args, "--listen", "127.0.0.1:0", "--with-parent")...)
	var complaints bytes.Buffer // copied at its end, because a.stderr has another writer
	server.Stderr = &complaints
	// In its own process group, Ctrl-C does not reach it. It ends when end is
	// called, or when this process dies, because then its standard input ends.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := server.StdoutPipe()
	if err != nil {
		return "", "", nil, err
	}
	if _, err := server.StdinPipe(); err != nil { // closed by Wait
		return "", "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", "", nil, fmt.Errorf("start devdb: %w", err)
	}
	end = func() error {
		_ = server.Process.Signal(syscall.SIGTERM) // fails only if it has ended
		late := time.AfterFunc(15*time.Second, func() { _ = server.Process.Kill() })
		defer late.Stop()
		err := server.Wait()
		_, _ = complaints.WriteTo(a.stderr) // an error here has no further effect
		return err
	}
	hanging := context.AfterFunc(ctx, func() { _ = server.Process.Kill() }) // it has no data yet
	line, err := bufio.NewReader(out).ReadString('\n')
	dsn, ready := strings.CutPrefix(strings.TrimSpace(line), "devdb ready ")
	if !hanging() {
		_ = end() // killed
		return "", "", nil, errLabInterrupted
	}
	if err != nil || !ready {
		return "", "", nil, errors.Join(errors.New("embedded database did not start"), end())
	}
	return dsn, "embedded (devdb, in memory)", end, nil
}

// askDatabase reads the row that a query returns from a database.
func askDatabase(ctx context.Context, dsn, query string, row ...any) error {
	db, err := conclavesql.OpenPool(dsn, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := db.QueryRowContext(ctx, query).Scan(row...); err != nil {
		return fmt.Errorf("ask the database (%s): %w", query, err)
	}
	return nil
}
