"""Judge a rung of the climb: first its values, then the instrument that its edit moves."""
