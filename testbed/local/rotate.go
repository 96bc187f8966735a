package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"conclave/internal/certs"
	"conclave/internal/sleep"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire/rights"
)

// rotateTokens replaces every token of the cluster while it runs: the new ones are
// added to the nodes' file, then clients and the operator use them, then the old ones
// are removed. A node that is down or paused reads the file later.
func (d *Cluster) rotateTokens(ctx context.Context) error {
	path := supervisor.TokensPath(d.nodes.Dir())
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var next strings.Builder
	for r := rights.Operator; r >= rights.Read; r-- {
		fmt.Fprintln(&next, r, "local", rand.Text())
	}
	tokens, err := rights.Parse(next.String())
	if err != nil {
		return err
	}
	before := d.Token()
	if err := d.putTokens(ctx, path, string(old)+next.String(), tokens.Strongest(), http.StatusOK); err != nil {
		return err
	}
	d.token.Store(tokens.Strongest())
	return d.putTokens(ctx, path, next.String(), before, http.StatusUnauthorized)
}

// putTokens writes the nodes' file and has them read it. It waits until each that
// answers gives this status to a token.
func (d *Cluster) putTokens(ctx context.Context, path, text, token string, status int) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	rows, err := d.nodes.Rows()
	if err != nil {
		return err
	}
	for _, p := range rows {
		if p.HTTP != "" && p.PID > 0 {
			if sent := d.nodes.Kill(ctx, p.Name, syscall.SIGHUP); !errors.Is(sent, supervisor.ErrDown) {
				err = errors.Join(err, sent)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, p := range rows {
		got := 0
		if p.HTTP != "" && p.PID > 0 && outside.Until(ctx, 20*time.Millisecond, func() (bool, error) {
			got = d.statusOf(ctx, p.HTTP, token)
			return got == 0 || got == status, nil
		}) != nil {
			return fmt.Errorf("%s answers %d to a token of the rotation, want %d", p.Name, got, status)
		}
	}
	return err
}

// statusOf returns the status with which a node answers a token, 0 if it does not
// answer.
func (d *Cluster) statusOf(ctx context.Context, address, token string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return outside.Status(ctx, d.view.HTTP, "http://"+address+"/v1/stopping", token)
}

// rotatePause is longer than the time for which a process uses certificates without
// looking whether the files have changed.
const rotatePause = 1100 * time.Millisecond

// rotateCertificates replaces the CA of the cluster and all certificates while it
// runs: the new CA is trusted beside the old one, then it issues all certificates,
// then the old one is trusted no more. Open connections stay.
func (d *Cluster) rotateCertificates(ctx context.Context) error {
	dir := filepath.Dir(d.nodes.TLSDir())
	fresh, err := os.MkdirTemp(d.cfg.Dir, "ca-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(fresh) }() // it is in the folder of the run
	if err := certs.NewCA(fresh, certs.CAValid); err != nil {
		return err
	}
	read := func(dir, name string) []byte {
		text, readErr := os.ReadFile(filepath.Join(dir, name))
		err = errors.Join(err, readErr)
		return text
	}
	old, oldKey := read(dir, certs.CAFile), read(dir, certs.CAKeyFile)
	next, key := read(fresh, certs.CAFile), read(fresh, certs.CAKeyFile)
	if err != nil {
		return err
	}
	for _, phase := range []struct{ trusted, key []byte }{ // the first certificate is that of the key
		{append(append([]byte{}, old...), next...), oldKey},
		{append(append([]byte{}, next...), old...), key},
		{next, key},
	} {
		err := errors.Join(
			os.WriteFile(filepath.Join(dir, certs.CAKeyFile), phase.key, 0o600),
			os.WriteFile(filepath.Join(dir, certs.CAFile), phase.trusted, 0o644))
		if err == nil {
			err = certs.Issue(dir, []string{"127.0.0.1", "localhost"}, certs.Valid)
		}
		if err != nil {
			return err
		}
		if err := sleep.For(ctx, rotatePause); err != nil {
			return err
		}
	}
	return nil
}
