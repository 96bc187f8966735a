package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/internal/certs"
	"conclave/testbed/outside"
)

// healthCommand is the health check for containers without a shell. Its exit
// code is the result.
func (a *app) healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health URL", Hidden: true, Args: want("URL"),
		Short: "Check one process: exit 0 if it answers 200",
		RunE: func(cmd *cobra.Command, args []string) error {
			if u, err := url.Parse(args[0]); err != nil || u.Scheme != "http" || u.Host == "" {
				return usageError{fmt.Errorf("health %q: want a URL such as http://127.0.0.1:9615/readyz", args[0])}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.health(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "give up after this long")
	return cmd
}

func (a *app) health(ctx context.Context, address string) error {
	return outside.Get(ctx, a.http, address, "", func(res *http.Response) error {
		body, err := io.ReadAll(io.LimitReader(res.Body, 4096))
		if err != nil {
			return err
		}
		text := strings.Join(strings.Fields(string(body)), " ")
		if res.StatusCode != http.StatusOK {
			return errors.New(strings.TrimSpace(fmt.Sprintf("%s answered %s %s", address, res.Status, text)))
		}
		fmt.Fprintln(a.stdout, strings.TrimSpace("200 "+text))
		return nil
	})
}

// secretsCommand creates the secrets that the containers of one cluster share.
// It runs in a container before all others.
func (a *app) secretsCommand() *cobra.Command {
	var hosts []string
	cmd := &cobra.Command{
		Use: "secrets DIR", Hidden: true, Args: want("DIR"),
		Short: "Create missing secrets of a cluster in containers",
		RunE: func(_ *cobra.Command, args []string) error {
			made, err := drawSecrets(args[0])
			if err != nil {
				return err
			}
			for _, name := range made {
				fmt.Fprintln(a.stdout, "drew", name)
			}
			if len(hosts) == 0 {
				return nil
			}
			if err := drawCerts(args[0], hosts); err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, "issued certificates")
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&hosts, "certs", nil, "issue certificates for nodes with these names and addresses, too")
	return cmd
}

// The files of the secrets. Each folder is mounted in the containers that need
// it.
const (
	tokenSecret    = "cluster/token"  // the operator's
	tokensSecret   = "cluster/tokens" // all, for the nodes
	appSecret      = "app/token"      // that of applications
	rootSecret     = "db/root-password"
	passwordSecret = "db/password"
	dsnSecret      = "meta/dsn"
	tlsDSNSecret   = "meta/tls-dsn"    //nolint:gosec // a name; the same with TLS, verified against the CA of tls/meta
	ownerSecret    = "migrate/dsn"     // of the user that owns the database
	ownerTLSSecret = "migrate/tls-dsn" //nolint:gosec // a name
)

// dbHost is the database's name in the containers' network, and dbRole the folder of
// its certificate.
const (
	dbHost = "db"
	dbRole = conclave.Role("db")
)

// drawSecrets creates the missing files and returns their names. It never
// changes an existing file, because the database keeps the password that it was
// created with.
//
// The files are readable by all users, since the processes in the containers
// run as other users than the folder's owner; only the owner can enter the
// folder itself. The files belong to the folder's owner, who can remove them.
func drawSecrets(dir string) (made []string, err error) {
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	// draw returns the text of a secret, which is the given one if there was none.
	draw := func(name, text string) string {
		if err != nil {
			return ""
		}
		path := filepath.Join(dir, name)
		folder, fresh := filepath.Dir(path), false
		if err = errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o755)); err == nil { // independent of the umask
			fresh, err = writeSecret(path, text)
		}
		if fresh {
			made = append(made, name)
		}
		kept, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr, giveTo(info, folder), giveTo(info, path))
		return strings.TrimSpace(string(kept))
	}
	operator, application := draw(tokenSecret, rand.Text()), draw(appSecret, rand.Text())
	root := draw(rootSecret, rand.Text())
	draw(passwordSecret, rand.Text())
	draw(tokensSecret, fmt.Sprintf("operator operator %s\nnode cluster %s\npublish app %s\n", operator, rand.Text(), application))
	own, owner := draw(dsnSecret, dsnOf("meta", rand.Text())), dsnOf("root", root)
	secured := filepath.Join(dir, tlsDSNSecret)
	if text, missing := os.ReadFile(secured); err == nil && missing == nil && string(text) != own+tlsOfDSN {
		err = os.Remove(secured) // it is that of a DSN that was removed
	}
	draw(tlsDSNSecret, own+tlsOfDSN)
	draw(ownerSecret, owner)
	draw(ownerTLSSecret, owner+tlsOfDSN)
	return made, err
}

// dsnOf returns the DSN of a user of the database in the containers.
func dsnOf(user, password string) string {
	return fmt.Sprintf("%s:%s@tcp(%s:3306)/conclave", user, password, dbHost)
}

// tlsOfDSN are the parameters of a DSN that make a container verify the database.
const tlsOfDSN = "?tlsCA=/run/secrets/tls/ca.pem"

// The folders of the development CA, which no container mounts, and of the
// certificates: one for each role, to be mounted.
const (
	caFolder   = "ca"
	certFolder = "tls"
)

// drawCerts issues new certificates by the CA in dir, which is made if there is
// none, and makes them readable for all users. Running processes use them from their
// next connections on.
func drawCerts(dir string, hosts []string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	ca, shown := filepath.Join(dir, caFolder), filepath.Join(dir, certFolder)
	if _, err := issueCerts(ca, shown, hosts, certs.Valid); err != nil {
		return err
	}
	if _, err := certs.IssueTo(ca, shown, []conclave.Role{dbRole}, []string{dbHost}, certs.Valid); err != nil {
		return err
	}
	give := func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, giveTo(info, path)) }
	return errors.Join(filepath.WalkDir(ca, give), filepath.WalkDir(shown, func(path string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o444)
		if err == nil && d.IsDir() {
			mode = 0o755
		}
		return errors.Join(give(path, d, err), os.Chmod(path, mode)) //nolint:gosec // only its owner writes to the folder
	}))
}

// writeSecret creates a file with its whole text or not at all, so that an
// interrupted call leaves no partial secret. The file has no final newline,
// because not every reader removes one. fresh reports whether the file was
// created.
func writeSecret(path, text string) (fresh bool, err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o444), f.Sync(), f.Close()); err != nil {
		return false, err
	}
	// A link instead of a rename, because it fails if the file exists.
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err == nil, err
	}
	return false, nil
}

// giveTo sets the owner of a file to that of the folder, if this process runs
// as root.
func giveTo(folder fs.FileInfo, path string) error {
	owner, ok := folder.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}

// certsCommand issues the certificates of a development CA.
func (a *app) certsCommand() *cobra.Command {
	var dir string
	var hosts []string
	var valid time.Duration
	cmd := &cobra.Command{
		Use: "certs", Short: "Make certificates for nodes and clients", Args: want(),
		Long: `Make a certificate for each role and one for clients, each in a folder of its own below
DIR with all that a process needs. They are signed by the development CA in DIR, which is
made if there is none. A second call renews the certificates; running processes use the
new ones from their next connections on. Keep DIR/ca-key.pem to yourself, and copy to a
machine only the folder that it needs.`,
		RunE: func(*cobra.Command, []string) error {
			issued, err := issueCerts(dir, dir, hosts, valid)
			switch {
			case errors.Is(err, certs.ErrHost):
				return usageError{fmt.Errorf("--host: %w", err)}
			case err != nil:
				return err
			}
			return a.show(issued, func(w io.Writer) {
				for _, i := range issued {
					fmt.Fprintf(w, "%s  valid until %s\n", i.Dir, i.Expires.Format(time.DateOnly))
				}
			})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "folder of the CA and of the folders with certificates")
	cmd.Flags().StringSliceVar(&hosts, "host", []string{"localhost", "127.0.0.1", "::1"}, "names and addresses that the nodes advertise")
	cmd.Flags().DurationVar(&valid, "valid", certs.Valid, "how long the certificates are valid, from now")
	moreThan0(cmd.Flags(), "valid")
	return cmd
}

// issued is a folder with a new certificate.
type issued struct {
	Role    string    `json:"role"`
	Dir     string    `json:"dir"`
	Expires time.Time `json:"expires"`
}

// issueCerts makes the CA in dir, if there is none, and the certificates in to.
func issueCerts(dir, to string, hosts []string, valid time.Duration) (out []issued, err error) {
	if err := certs.NewCA(dir, certs.CAValid); err != nil && !errors.Is(err, certs.ErrExists) {
		return nil, err
	}
	expires, err := certs.IssueTo(dir, to, certs.Roles, hosts, valid)
	for _, role := range certs.Roles {
		out = append(out, issued{string(role), filepath.Join(to, string(role)), expires})
	}
	return out, err
}
