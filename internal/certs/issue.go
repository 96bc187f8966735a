package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"conclave"
)

// CAKeyFile is the private key of a development CA, beside its CAFile.
const CAKeyFile = "ca-key.pem"

// ClientRole is the folder of the certificate for clients, which names no role.
const ClientRole conclave.Role = "client"

// Roles are those for which Issue makes certificates, each in the folder of its
// name.
var Roles = []conclave.Role{conclave.RoleMeta, conclave.RoleSession, conclave.RoleData, ClientRole}

// ErrHost reports a host for which no certificate can be issued.
var ErrHost = errors.New("want a host name or an IP address, without a port")

// hostName is a name in DNS, perhaps with a wildcard; a last part of digits only is that of
// an address with a mistake.
var hostName = regexp.MustCompile(`^(\*\.)?(\w([\w-]{0,61}\w)?\.)*(\w[\w-]{0,61})?[A-Za-z_]([\w-]{0,61}\w)?$`)

// ErrExists reports that a folder has a CA already.
var ErrExists = errors.New("there is a CA already")

// backdate is subtracted from the beginning of a certificate's validity, for
// machines whose clocks differ.
const backdate = 5 * time.Minute

// CAValid and Valid are how long a development CA, and a certificate that it
// issues, are valid by default.
const (
	CAValid = 10 * 365 * 24 * time.Hour
	Valid   = 365 * 24 * time.Hour
)

// NewCA writes a new CA to the folder. It returns ErrExists if there is one.
func NewCA(dir string, valid time.Duration) error {
	for _, name := range []string{CAFile, CAKeyFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("%w: %s", ErrExists, filepath.Join(dir, name)), err)
		}
	}
	template, err := newTemplate("Conclave development CA", valid)
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writePair(dir, CAFile, CAKeyFile, der, key)
}

// Issue writes new certificates of the CA in the folder for all Roles; see IssueTo.
func Issue(dir string, hosts []string, valid time.Duration) error {
	_, err := IssueTo(dir, dir, Roles, hosts, valid)
	return err
}

// IssueTo writes new certificates of the CA in a folder to another one, with a folder
// for each role with all that a process needs, valid for these host names and
// addresses, and returns when they expire. Running processes use them from their next
// connections on. A role may be one of Roles, or the name of another server that nodes
// call, such as a database.
func IssueTo(dir, to string, roles []conclave.Role, hosts []string, valid time.Duration) (expires time.Time, err error) {
	for _, h := range hosts {
		if net.ParseIP(h) == nil && (len(h) > 253 || !hostName.MatchString(h)) {
			return expires, fmt.Errorf("host %q: %w", h, ErrHost)
		}
	}
	caPEM, err := os.ReadFile(filepath.Join(dir, CAFile)) // may have several: the first is that of the key
	if err != nil {
		return expires, err
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, CAFile), filepath.Join(dir, CAKeyFile))
	if err != nil {
		return expires, fmt.Errorf("the CA in %s: %w", dir, err)
	}
	for _, role := range roles {
		cert, der, key, err := issue(ca, role, hosts, valid)
		if err != nil {
			return expires, err
		}
		expires = cert.NotAfter.UTC().Truncate(time.Second)
		folder := filepath.Join(to, string(role))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return expires, err
		}
		if err := replaceFile(filepath.Join(folder, CAFile), caPEM, 0o644); err != nil {
			return expires, err
		}
		certFile, keyFile := CertFile, KeyFile
		if role == ClientRole {
			certFile, keyFile = ClientCertFile, ClientKeyFile
		}
		if err := writePair(folder, certFile, keyFile, der, key); err != nil {
			return expires, err
		}
	}
	return expires, nil
}

// issue returns a new certificate, also encoded, and its key.
func issue(ca tls.Certificate, role conclave.Role, hosts []string, valid time.Duration) (template *x509.Certificate, der []byte, key *ecdsa.PrivateKey, err error) {
	if template, err = newTemplate("Conclave "+string(role), valid); err != nil {
		return nil, nil, nil, err
	}
	if ca.Leaf.NotAfter.Before(template.NotAfter) {
		template.NotAfter = ca.Leaf.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if role != ClientRole {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.DNSNames = []string{RoleName(role)}
		for _, h := range hosts {
			if ip := net.ParseIP(h); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else if !slices.Contains(template.DNSNames, h) {
				template.DNSNames = append(template.DNSNames, h)
			}
		}
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, nil, err
	}
	der, err = x509.CreateCertificate(rand.Reader, template, ca.Leaf, &key.PublicKey, ca.PrivateKey)
	return template, der, key, err
}

func newTemplate(name string, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-backdate), NotAfter: now.Add(valid)}, nil
}

// writePair writes a key, which only its owner may read, and its certificate. A
// process that reads between the two finds a pair that does not fit, and keeps
// the old one until its next look.
func writePair(dir, certFile, keyFile string, cert []byte, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, certFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644)
}

// replaceFile writes a file under another name and renames it, so that no reader
// finds half of it.
func replaceFile(path string, body []byte, mode os.FileMode) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // its mode would stay
	}
	if err := os.WriteFile(tmp, body, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
