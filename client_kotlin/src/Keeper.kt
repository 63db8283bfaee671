package rappor.telemetry

/** Ends the secret of a device: in its state, or with the whole of a state that cannot be read or written. */
internal class Keeper(private val storage: Storage, private val state: StateFile) {
    /** Whether this client has seen a secret: without one it would not draw another silently. */
    var hadSecret = false

    /** Whether a withdrawal is not finished yet. */
    @Volatile var isUnwiped = false

    /** Note the withdrawal, for a process that has the state and for the next start. */
    fun note() {
        try {
            storage.noteWithdrawal()
        } catch (error: StateException) {
            // A disk that accepts nothing: what can be done is done by the withdrawal itself.
        }
    }

    /** Throws StateException if it could not be done yet. */
    fun wipe() {
        try {
            val isGone = state.transact { hadSecret && it[DEVICE] == null }
            if (isGone) {
                state.close()
                throw StateException(Condition.STATE_IN_USE, "no state lies where one was opened: it was moved or deleted")
            }
            state.endConsent()
        } catch (error: StateException) {
            if (error.condition == Condition.STATE_IN_USE) throw error
            state.close()
            storage.erase()
        }
        hadSecret = false
        isUnwiped = false
    }

    fun reset(): Unit = storage.reset()
}
