// Package access owns users, API keys and sessions, and verifies the credentials of callers.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"

	"lksms/gen/accessq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/snapshot"
	"lksms/internal/platform/sweep"
)

// These are the roles.
const (
	RoleSubmit = "submit" // submits, and sees only its own submissions
	RoleSend   = "send"   // claims and reports for every company; with an app_id, only as this app
	RoleRead   = "read"   // changes nothing; sees the data of its company, or of all companies if it has no company
	RoleAdmin  = "admin"  // sees and changes everything
)

// Principal is an authenticated caller.
type Principal struct {
	Username string
	Role     string
	AppID    string // the only app that a send user can act as; empty: any app

	CompanyID   int64
	SeesAll     bool  // true for an admin and for a reader without a company
	TopPriority int16 // the most urgent (smallest) priority that the caller can request
}

// DefaultCompany is the id of the company of every user without a company, including the configured user.
const DefaultCompany int64 = 1

// An API key consists of keyPrefix and the base64 of keyBytes random bytes.
const (
	keyPrefix = "lksms_"
	keyBytes  = 32
)

// isKey reports whether a text has the form of an API key. The password of a user cannot have this form, but it can start with keyPrefix.
func isKey(text string) bool {
	random, hasPrefix := strings.CutPrefix(text, keyPrefix)
	if !hasPrefix || len(random) != base64.RawURLEncoding.EncodedLen(keyBytes) {
		return false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(random)
	return err == nil && len(decoded) == keyBytes
}

// passwordCost is the cost of a password hash: 19 MiB and about 20 ms.
var passwordCost = &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// Service verifies credentials and manages users.
type Service struct {
	db       *postgres.DB
	q        *accessq.Queries
	admin    Principal
	settings *setting.Service
	verifier *verifier
	cost     *argon2id.Params // cost of a new password hash
	sessions sessions
	switched func()
}

// Options configures a Service. Username and Password belong to the configured admin, which is not in the table users
// (S0.7).
type Options struct {
	Username, Password string

	Settings *setting.Service // nil: a new service

	PasswordCost *argon2id.Params // cost of a new password hash, which contains it; nil: 19 MiB and about 20 ms

	Now func() time.Time // clock of the caches and of the waits after wrong guesses; nil: time.Now
}

// New returns a Service on db.
func New(db *postgres.DB, o Options) (*Service, error) {
	if o.PasswordCost == nil {
		o.PasswordCost = passwordCost
	}
	nobody, err := argon2id.CreateHash(rand.Text(), o.PasswordCost)
	if err != nil {
		return nil, fmt.Errorf("prepare password hashing: %w", err)
	}
	secret := make([]byte, sha256.Size)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("make secret: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Settings == nil {
		o.Settings = setting.New(db)
	}
	admin := Principal{Username: o.Username, Role: RoleAdmin, CompanyID: DefaultCompany, SeesAll: true}
	// Hashing uses half of the cores. The other cores serve callers whose credentials are cached.
	slots := max(1, runtime.GOMAXPROCS(0)/2)
	return &Service{db: db, q: accessq.New(db), admin: admin, switched: func() {}, settings: o.Settings, cost: o.PasswordCost, sessions: sessions{known: newLRU[knownSession](50_000)}, verifier: &verifier{
		versions: snapshot.Cache[int64]{Load: accessq.New(db.Outside()).CredentialsVersion, Fresh: versionTTL, Now: o.Now},
		q:        accessq.New(db), now: o.Now, bootstrap: digest(o.Username, o.Password), admin: admin, secret: secret, nobody: nobody,
		visitStored: newLRU[time.Time](50_000), unstored: map[visit]struct{}{},
		verdicts: newLRU[verdict](50_000), proofs: newLRU[proof](100_000), mistakes: newLRU[mistake](50_000), knownUsers: newLRU[knownUsers](1000),
		failures: newFailures(o.Now), gates: gates{open: map[string]*gate{}},
		hashing: make(chan struct{}, slots), reserved: make(chan struct{}, 1), lookups: make(chan struct{}, 4),
	}}, nil
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-sessions", Interval: 10 * time.Minute, Run: s.DeleteExpiredSessions},
		{Name: "record-user-addresses", Interval: 5 * time.Second, Routine: true, Run: s.RecordVisits},
	}
}

// OnSwitched sets the function that Update calls, before it returns, if it disabled or enabled a user.
func (s *Service) OnSwitched(do func()) { s.switched = do }

// ErrRequired is the fault for missing or wrong credentials.
var ErrRequired = fault.New(fault.Unauthorized, fault.AuthRequired)

var (
	errNoUser    = fault.New(fault.NotFound, fault.UserNotFound)
	errNoCompany = fault.InvalidField("company_no", fault.NotThere, nil)
	errUnbound   = fault.InvalidField("company_no", fault.OnlyForBoundRoles, nil)
	errNoKey     = fault.New(fault.NotFound, fault.KeyNotFound)
)

// Basic verifies a user name and a password, or a user name and an API key of that user. address is the caller's IP
// address. Faults: auth.required, auth.too_many_failures, unavailable. A wrong password and an unknown user take the
// same time.
func (s *Service) Basic(ctx context.Context, username, password, address string) (Principal, error) {
	return s.verifier.verify(ctx, s.verifier.attempt(username, password, address))
}

// Bearer verifies an API key. Faults as for Basic.
func (s *Service) Bearer(ctx context.Context, key, address string) (Principal, error) {
	if !isKey(key) {
		return Principal{}, ErrRequired
	}
	return s.Basic(ctx, "", key, address) // a key identifies its user
}

// Bind verifies the credentials of an SMPP bind: those of Basic, or a user name with the SMPP password of the user. Faults as for Basic.
func (s *Service) Bind(ctx context.Context, username, password, address string) (Principal, error) {
	return s.verifier.verify(ctx, s.verifier.bindAttempt(username, password, address))
}

// RecordVisits stores the addresses of users that called with cached credentials. It returns the number of stored visits. After an error, the next call
// stores the remaining visits.
func (s *Service) RecordVisits(ctx context.Context) (int, error) { return s.verifier.storeVisits(ctx) }

// SeesAll reports whether a user sees every company.
func SeesAll(user UserRow) bool {
	return user.Role == RoleAdmin || user.Role == RoleRead && !user.HasCompany
}

func principalOf(user UserRow) Principal {
	return Principal{
		Username: user.Username, Role: user.Role, AppID: optional.Value(user.AppID), CompanyID: user.CompanyID, SeesAll: SeesAll(user), TopPriority: user.TopPriority,
	}
}

// digest returns a sum of fixed length. A user name contains no colon, because HTTP Basic splits the credentials there.
func digest(username, password string) [sha256.Size]byte {
	return sha256.Sum256([]byte(username + ":" + password))
}

// User is a user to create. A user with an empty Password can log in with API keys only.
type User struct {
	Username string
	Password string
	Role     string
	AppID    *string

	CompanyNo   *string // for submit and read only; nil: the default company for submit, all companies for read
	TopPriority *int16  // most urgent priority that the user can request; nil: 1
}

// Create adds a user. Faults: user.exists, and request.invalid for: an app_id with a role other than send, an unknown company, a company with a role that
// cannot have a company, a malformed name, app_id or password, a password in the form of an API key.
func (s *Service) Create(ctx context.Context, u User) (UserRow, error) {
	if err := checkNames(u.Username, u.AppID); err != nil {
		return UserRow{}, err
	}
	if u.AppID != nil && u.Role != RoleSend {
		return UserRow{}, fault.InvalidField("app_id", fault.OnlyForSenders, nil)
	}
	if u.Username == s.admin.Username {
		return UserRow{}, fault.New(fault.Conflict, fault.UserExists)
	}
	hash, err := s.hash(ctx, u.Password)
	if err != nil {
		return UserRow{}, err
	}
	row, err := s.q.UserCreate(ctx, accessq.UserCreateParams{
		Username: u.Username, Role: u.Role, AppID: u.AppID, PasswordHash: hash, CompanyNo: u.CompanyNo, TopPriority: u.TopPriority,
	})
	switch {
	case postgres.IsNoRows(err):
		return row, errNoCompany
	case postgres.Violates(err, bindsRole):
		return row, errUnbound
	case postgres.Violates(err, "users_username_key"):
		return row, fault.New(fault.Conflict, fault.UserExists)
	}
	s.changed(ctx)
	return row, postgres.Wrap("create user", err, nil)
}

// HasNamesake reports whether a stored user that is not disabled has the name of the configured admin. The password of the stored user does not work, but its
// API keys work. The stored user and the configured admin share their submissions.
func (s *Service) HasNamesake(ctx context.Context) (bool, error) {
	user, err := s.Get(ctx, s.admin.Username)
	if errors.Is(err, errNoUser) {
		return false, nil
	}
	return !user.IsDisabled, err
}

// Get returns one user, or the fault user.not_found.
func (s *Service) Get(ctx context.Context, username string) (UserRow, error) {
	row, err := s.q.UserGet(ctx, username)
	return row, postgres.Wrap("get user", err, errNoUser)
}

// List returns up to limit users with smaller ids than `before`, newest first.
func (s *Service) List(ctx context.Context, before int64, limit int) ([]UserRow, error) {
	rows, err := s.q.UserList(ctx, accessq.UserListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list users", err, nil)
}

// Patch is a change of a user. A nil field is left unchanged; an empty AppID removes the app_id.
type Patch struct {
	Username   string
	Password   *string
	Role       *string
	AppID      *string
	IsDisabled *bool

	CompanyNo      *string
	WithoutCompany bool // removes the user from its company
	TopPriority    *int16
	Version        *int64 // the version that the user must have; nil: any version
}

// bindsRole is the name of the database constraint that allows a company only for the roles submit and read.
const bindsRole = "users_company_binds_role"

// Update changes a user. The change takes effect on this server when Update returns, and on other servers within two seconds. Faults: user.not_found,
// version.stale, and request.invalid for: an unknown company, a company with a role that cannot have a company, a malformed password, a password in the form of
// an API key.
func (s *Service) Update(ctx context.Context, p Patch) (UserRow, error) {
	params := accessq.UserUpdateParams{Username: p.Username, Role: p.Role, AppID: p.AppID, IsDisabled: p.IsDisabled, CompanyNo: p.CompanyNo, TopPriority: p.TopPriority,
		WithoutCompany: p.WithoutCompany, Version: p.Version,
	}
	if p.CompanyNo != nil {
		if _, err := s.q.CompanyFind(ctx, *p.CompanyNo); err != nil {
			return UserRow{}, postgres.Wrap("find company", err, errNoCompany)
		}
	}
	if p.Password != nil {
		hash, err := s.hash(ctx, *p.Password)
		if err != nil {
			return UserRow{}, err
		}
		params.PasswordHash = hash
	}
	row, err := s.q.UserUpdate(ctx, params)
	s.changed(ctx)
	if err == nil && p.IsDisabled != nil {
		s.db.AfterCommit(ctx, s.switched)
	}
	if postgres.Violates(err, bindsRole) {
		return row, errUnbound
	}
	if postgres.IsNoRows(err) && p.Version != nil {
		if _, err := s.Get(ctx, p.Username); err == nil {
			return row, fault.New(fault.Conflict, fault.VersionStale)
		}
	}
	return row, postgres.Wrap("update user", err, errNoUser)
}

// CreateKey creates an API key and returns it. The key cannot be read again: only its hash is stored. Fault:
// user.not_found.
func (s *Service) CreateKey(ctx context.Context, username, name string) (accessq.KeyCreateRow, string, error) {
	random := make([]byte, keyBytes)
	if _, err := rand.Read(random); err != nil {
		return accessq.KeyCreateRow{}, "", fmt.Errorf("make API key: %w", err)
	}
	key := keyPrefix + base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(key))
	row, err := s.q.KeyCreate(ctx, accessq.KeyCreateParams{Username: username, Name: name, KeyHash: sum[:]})
	s.changed(ctx)
	return row, key, postgres.Wrap("create API key", err, errNoUser)
}

// ListKeys lists the keys of a user, newest first. Fault: user.not_found.
func (s *Service) ListKeys(ctx context.Context, username string) ([]KeyRow, error) {
	if _, err := s.Get(ctx, username); err != nil {
		return nil, err
	}
	rows, err := s.q.KeyList(ctx, username)
	return rows, postgres.Wrap("list API keys", err, nil)
}

// DeleteKey deletes an API key. The key stops working on this server when DeleteKey returns, and on others within two
// seconds. Fault: key.not_found.
func (s *Service) DeleteKey(ctx context.Context, username string, id int64) error {
	n, err := s.q.KeyDelete(ctx, accessq.KeyDeleteParams{Username: username, ID: id})
	s.changed(ctx)
	return postgres.DeletedOne(n, err, "delete API key", errNoKey)
}

// changed makes this server read the version of the stored credentials again. This outdates all cached verdicts, which is cheap because changes are rare. Call
// changed also after an error, because the change is possibly committed. Inside a transaction, changed takes effect after the commit: before the commit, other
// connections do not see the change.
func (s *Service) changed(ctx context.Context) {
	s.db.AfterCommit(ctx, func() {
		s.verifier.versions.Invalidate()
		s.sessions.ends.Add(1)
	})
}

// hash hashes a password. It returns nil for an empty password. It waits for a slot for password comparisons, because hashing needs as much memory as a
// comparison.
func (s *Service) hash(ctx context.Context, password string) (*string, error) {
	if password == "" {
		return nil, nil
	}
	if err := passwordForm.check("password", password); err != nil {
		return nil, err
	}
	if isKey(password) { // verify would look the password up as an API key, and never compare it with the hash
		return nil, fault.InvalidField("password", fault.MadeLikeAKey, nil)
	}
	if err := acquire(ctx, s.verifier.hashing); err != nil {
		return nil, err
	}
	defer func() { <-s.verifier.hashing }()
	hash, err := argon2id.CreateHash(password, s.cost)
	if err != nil {
		return nil, errors.New("hash password") // the error of the library can contain the password
	}
	return &hash, nil
}
