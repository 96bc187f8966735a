package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/supervisor"
)

func (a *app) labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lab", Short: "Ways to elect and to lock, side by side under the same faults",
		Args: cobra.ArbitraryArgs, RunE: needsSubcommand,
	}
	for _, sub := range []*cobra.Command{
		a.labElectionsCommand(),
		a.labOversellCommand(),
	} {
		cmd.AddCommand(sub)
		cmd.ValidArgs = append(cmd.ValidArgs, sub.Name())
	}
	cmd.AddCommand(a.labCandidateCommand())
	return cmd
}

// errLabInterrupted: by Ctrl-C, or whoever ended ctx.
var errLabInterrupted = errors.New("interrupted")

// checkLab says what is wrong with what both labs take, before anything is started: a
// DSN or an address that cannot be read, a page that cannot be written.
func checkLab(db, zookeeper, html string) error {
	if err := checkDatabase(db); err != nil {
		return err
	}
	if zookeeper != "" {
		if _, _, err := net.SplitHostPort(zookeeper); err != nil {
			return usageError{fmt.Errorf("--zookeeper %q: want HOST:PORT", zookeeper)}
		}
	}
	if html == "" {
		return nil
	}
	page, err := os.OpenFile(html, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return page.Close()
}

// labDatabase is the database of --db: a server that is there, or an embedded one of
// this call's own. name is what reports say of it.
func (a *app) labDatabase(ctx context.Context, db string) (dsn, name string, end func() error, err error) {
	if db != supervisor.Embedded {
		return db, "", func() error { return nil }, nil
	}
	_, bin, err := toolPath()
	if err != nil {
		return "", "", nil, err
	}
	path := filepath.Join(bin, "devdb")
	if _, err := os.Stat(path); err != nil {
		return "", "", nil, fmt.Errorf("the program devdb is not in %s, beside the tool: build it with `make build`, or give --db a DSN", bin)
	}
	server := exec.CommandContext(context.WithoutCancel(ctx), path, "--listen", "127.0.0.1:0", "--with-parent")
	var complaints bytes.Buffer // read when it has ended: a.stderr has another writer meanwhile
	server.Stderr = &complaints
	// A group of its own: Ctrl-C is ours, and the server ends when we are done with it, or
	// die: the pipe to it, of which nothing is said, ends with us.
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
		_ = server.Process.Signal(syscall.SIGTERM) // gone already is fine
		late := time.AfterFunc(15*time.Second, func() { _ = server.Process.Kill() })
		defer late.Stop()
		err := server.Wait()
		_, _ = complaints.WriteTo(a.stderr) // what nobody can read, nobody reads
		return err
	}
	hanging := context.AfterFunc(ctx, func() { _ = server.Process.Kill() }) // it has nothing yet that could be lost
	line, err := bufio.NewReader(out).ReadString('\n')
	dsn, ready := strings.CutPrefix(strings.TrimSpace(line), "devdb ready ")
	if !hanging() {
		_ = end() // killed
		return "", "", nil, errLabInterrupted
	}
	if err != nil || !ready {
		return "", "", nil, errors.Join(errors.New("the embedded database did not start"), end())
	}
	return dsn, "embedded (devdb, in memory)", end, nil
}
