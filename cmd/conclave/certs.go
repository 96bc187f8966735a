package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/certs"
)

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
			if valid <= 0 {
				return usageError{fmt.Errorf("--valid %s: want a positive time", valid)}
			}
			issued, err := issueCerts(dir, hosts, valid)
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
	return cmd
}

// issued is a folder with a new certificate.
type issued struct {
	Role    string    `json:"role"`
	Dir     string    `json:"dir"`
	Expires time.Time `json:"expires"`
}

// issueCerts makes the CA, if there is none, and the certificates.
func issueCerts(dir string, hosts []string, valid time.Duration) ([]issued, error) {
	if err := certs.NewCA(dir, certs.CAValid); err != nil && !errors.Is(err, certs.ErrExists) {
		return nil, err
	}
	if err := certs.Issue(dir, hosts, valid); err != nil {
		return nil, err
	}
	var out []issued
	for _, role := range certs.Roles {
		loaded := role
		if role == certs.ClientRole {
			loaded = ""
		}
		folder := filepath.Join(dir, string(role))
		set, err := certs.Load(folder, loaded, func(error) {})
		if err != nil {
			return nil, err
		}
		out = append(out, issued{string(role), folder, set.Expires().UTC()})
	}
	return out, nil
}
