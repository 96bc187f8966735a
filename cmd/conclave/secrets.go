package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/internal/certs"
)

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
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	draw := func(name, text string) error {
		path := filepath.Join(dir, name)
		folder := filepath.Dir(path)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(folder, 0o755); err != nil { // independent of the umask
			return err
		}
		fresh, err := writeSecret(path, text)
		if err != nil {
			return err
		}
		if fresh {
			made = append(made, name)
		}
		return errors.Join(giveTo(info, folder), giveTo(info, path))
	}
	for _, name := range []string{tokenSecret, appSecret, rootSecret, passwordSecret} {
		if err := draw(name, rand.Text()); err != nil {
			return made, err
		}
	}
	operator, err := os.ReadFile(filepath.Join(dir, tokenSecret))
	if err != nil {
		return made, err
	}
	application, err := os.ReadFile(filepath.Join(dir, appSecret))
	if err != nil {
		return made, err
	}
	tokens := fmt.Sprintf("operator operator %s\nnode cluster %s\npublish app %s\n", strings.TrimSpace(string(operator)), rand.Text(), strings.TrimSpace(string(application)))
	if err := draw(tokensSecret, tokens); err != nil {
		return made, err
	}
	root, err := os.ReadFile(filepath.Join(dir, rootSecret))
	if err != nil {
		return made, err
	}
	if err := dropOwnerDSN(dir); err != nil {
		return made, err
	}
	if err := draw(dsnSecret, dsnOf("meta", rand.Text())); err != nil {
		return made, err
	}
	own, err := os.ReadFile(filepath.Join(dir, dsnSecret))
	if err != nil {
		return made, err
	}
	owner := dsnOf("root", strings.TrimSpace(string(root)))
	for _, s := range [][2]string{{tlsDSNSecret, string(own) + tlsOfDSN}, {ownerSecret, owner}, {ownerTLSSecret, owner + tlsOfDSN}} {
		if err := draw(s[0], s[1]); err != nil {
			return made, err
		}
	}
	return made, nil
}

// dsnOf returns the DSN of a user of the database in the containers.
func dsnOf(user, password string) string {
	return fmt.Sprintf("%s:%s@tcp(%s:3306)/conclave", user, password, dbHost)
}

// tlsOfDSN are the parameters of a DSN that make a container verify the database.
const tlsOfDSN = "?tlsCA=/run/secrets/tls/ca.pem"

// dropOwnerDSN removes a DSN of the metas that is that of the database's owner, as
// earlier versions drew it, and the one with TLS if it does not fit.
func dropOwnerDSN(dir string) error {
	path, secured := filepath.Join(dir, dsnSecret), filepath.Join(dir, tlsDSNSecret)
	own, err := os.ReadFile(path)
	if err == nil && strings.HasPrefix(string(own), "conclave:") {
		err = os.Remove(path)
		own = nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err := os.ReadFile(secured); err == nil && string(text) != string(own)+tlsOfDSN {
		return os.Remove(secured)
	}
	return nil
}

// The folders of the development CA, which no container mounts, and of the
// certificates: one for each role, to be mounted.
const (
	caFolder   = "ca"
	certFolder = "tls"
)

// drawCerts issues new certificates by the CA in dir, which is made if there is
// none. Running processes use them from their next connections on.
func drawCerts(dir string, hosts []string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	ca := filepath.Join(dir, caFolder)
	all, err := issueCerts(ca, hosts, certs.Valid)
	if err != nil {
		return err
	}
	if err := certs.IssueTo(ca, []conclave.Role{dbRole}, []string{dbHost}, certs.Valid); err != nil {
		return err
	}
	for _, i := range append(all, issued{Role: string(dbRole), Dir: filepath.Join(ca, string(dbRole))}) {
		folder := filepath.Join(dir, certFolder, i.Role)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, f := range []string{filepath.Dir(folder), folder} {
			if err := errors.Join(os.Chmod(f, 0o755), giveTo(info, f)); err != nil {
				return err
			}
		}
		if err := showCerts(i.Dir, folder, info); err != nil {
			return err
		}
	}
	return filepath.WalkDir(ca, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, giveTo(info, path))
	})
}

// showCerts copies the files of a folder to another one, where all users can
// read them. Each is complete at once.
func showCerts(from, to string, owner fs.FileInfo) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		body, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		fresh := filepath.Join(to, f.Name()+".new")
		if err := os.RemoveAll(fresh); err != nil { // of an interrupted call; its mode would stay
			return err
		}
		if err := os.WriteFile(fresh, body, 0o444); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(fresh, 0o444), giveTo(owner, fresh), os.Rename(fresh, filepath.Join(to, f.Name()))); err != nil {
			return err
		}
	}
	return nil
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
