package access

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/alexedwards/argon2id"

	"lksms/gen/accessq"
	"lksms/internal/platform/postgres"
)

// smppPasswordLength is the maximum length of a password in SMPP 3.4 (section 5.2.2). The server chooses these passwords, because eight characters that a person
// chooses can be guessed.
const smppPasswordLength = 8

// CreateSMPPPassword creates the SMPP password of a user, which replaces an earlier one, and returns it. The password cannot be read again. Fault: user.not_found.
func (s *Service) CreateSMPPPassword(ctx context.Context, username string) (string, error) {
	password := rand.Text()[:smppPasswordLength] // 40 bits
	if err := acquire(ctx, s.verifier.hashing); err != nil {
		return "", err
	}
	hash, err := argon2id.CreateHash(password, s.cost)
	<-s.verifier.hashing
	if err != nil {
		return "", errors.New("hash SMPP password") // the error of the library can contain the password
	}
	n, err := s.q.SmppPasswordPut(ctx, accessq.SmppPasswordPutParams{Username: username, PasswordHash: hash})
	s.changed(ctx)
	return password, postgres.DeletedOne(n, err, "create SMPP password", errNoUser)
}

// DeleteSMPPPassword deletes the SMPP password of a user. Binds with the password end within three seconds.
// Fault: key.not_found.
func (s *Service) DeleteSMPPPassword(ctx context.Context, username string) error {
	n, err := s.q.SmppPasswordDelete(ctx, username)
	s.changed(ctx)
	return postgres.DeletedOne(n, err, "delete SMPP password", errNoKey)
}
