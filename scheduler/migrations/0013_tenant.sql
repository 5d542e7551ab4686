-- Agents of before knew one tenant. Two tenants' failures are looked for by state.
ALTER TABLE transfers ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';
CREATE INDEX transfers_by_tenant ON transfers (tenant, ordinal);
CREATE INDEX transfers_by_tenant_state ON transfers (tenant, state, ordinal);
